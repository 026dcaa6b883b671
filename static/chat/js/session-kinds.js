/** The kinds of conversations that the list reads for themselves, page by page. */

/** @typedef {import("./types.js").Session} Session */

export class Kind {
  /** @param {string} query @param {(session: Session) => boolean} takes */
  constructor(query, takes) {
    this.first = `sessions/?${query}`;
    this.takes = takes;
    /** @type {string | null} */
    this.next = this.first;
    this.isLoading = false;
  }

  /**
   * Which of those that were known are not of this kind any more, by its newest page.
   * @param {Session[]} known @param {{results: Session[], next: string | null}} page
   */
  missing(known, page) {
    const isThere = new Set(page.results.map((each) => each.id));
    const oldest = (page.next && page.results.at(-1)?.last_active_at) || "";
    return known.filter((each) => each.last_active_at > oldest && !isThere.has(each.id));
  }
}

export const openKind = () => new Kind("is_archived=false", (session) => !session.is_archived);
export const archivedKind = () => new Kind("is_archived=true", (session) => session.is_archived);
export const pinnedKind = () =>
  new Kind(
    "is_archived=false&is_pinned=true&page_size=100",
    (session) => session.is_pinned && !session.is_archived,
  );
