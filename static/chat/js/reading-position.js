/** Where the reader is: follows the end only for who is there, and moves nothing for who is not. */

const NEAR = 48; // px from the end that still count as the end
const SETTLING = 6; // frames until messages that have come into sight have their real height

export class ReadingPosition {
  /**
   * @param {HTMLElement} scroller
   * @param {() => void} onChange
   */
  constructor(scroller, onChange) {
    this.scroller = scroller;
    this.isFollowing = true;
    this.lastTop = 0;
    this.unsettled = 0;
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

  toEnd() {
    this.isFollowing = true;
    this.follow();
  }

  /** After new text: stay at the end if that is where the reader is. */
  follow() {
    if (!this.isFollowing) return;
    this.scroller.scrollTop = this.scroller.scrollHeight;
    const isSettling = this.unsettled > 0;
    this.unsettled = SETTLING;
    if (!isSettling) requestAnimationFrame(() => this.#settle());
  }

  #settle() {
    this.unsettled = this.isFollowing ? this.unsettled - 1 : 0;
    if (!this.unsettled) return;
    this.scroller.scrollTop = this.scroller.scrollHeight;
    requestAnimationFrame(() => this.#settle());
  }

  /** Bring something to a place in the window, as far as there is room. @param {Element} shown @param {number} top */
  moveTo(shown, top) {
    this.scroller.scrollTop += shown.getBoundingClientRect().top - top;
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
