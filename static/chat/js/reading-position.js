/** Where the reader is: follows the end only for who is there, and moves nothing for who is not. */

const NEAR = 48; // px from the end that still count as the end

export class ReadingPosition {
  /**
   * @param {HTMLElement} scroller
   * @param {() => void} onChange
   */
  constructor(scroller, onChange) {
    this.scroller = scroller;
    this.isFollowing = true;
    this.lastTop = 0;
    scroller.addEventListener(
      "scroll",
      () => {
        const isUp = scroller.scrollTop < this.lastTop - 1;
        this.lastTop = scroller.scrollTop;
        if (this.isAtEnd) this.isFollowing = true;
        else if (isUp) this.isFollowing = false;
        onChange();
      },
      { passive: true },
    );
    new ResizeObserver(() => this.follow()).observe(scroller);
  }

  get isAtEnd() {
    const { scrollHeight, scrollTop, clientHeight } = this.scroller;
    return scrollHeight - scrollTop - clientHeight <= NEAR;
  }

  /** @param {number} [frames] messages get their real height only when they have come into sight */
  toEnd(frames = 4) {
    this.isFollowing = true;
    this.scroller.scrollTop = this.scroller.scrollHeight;
    if (frames) requestAnimationFrame(() => this.isFollowing && this.toEnd(frames - 1));
  }

  /** After new text: stay at the end if that is where the reader is. */
  follow() {
    if (this.isFollowing) this.scroller.scrollTop = this.scroller.scrollHeight;
  }

  /**
   * Change what lies above or below without moving what is being read.
   * @param {() => Element | null} anchor something in sight that stays
   * @param {() => void} change
   */
  hold(anchor, change) {
    const held = anchor();
    const before = held?.getBoundingClientRect().top ?? 0;
    this.scroller.style.overflowAnchor = "none";
    change();
    if (held?.isConnected) {
      this.scroller.scrollTop += held.getBoundingClientRect().top - before;
    }
    requestAnimationFrame(() => {
      this.scroller.style.overflowAnchor = "";
    });
  }
}
