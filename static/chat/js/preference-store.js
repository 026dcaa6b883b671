/** What is remembered of the person, as the server said last; whoever shows some of it listens here. */

export class PreferenceStore {
  /** @param {import("./api.js").Api} api */
  constructor(api) {
    this.api = api;
    /** @type {Map<number, import("./types.js").Preference>} */
    this.known = new Map();
    /** @type {Set<() => void>} */
    this.listeners = new Set();
    /** @type {Map<number, number>} when each was told last, by the clock of changes */
    this.told = new Map();
    this.clock = 0;
    this.loads = 0;
    this.read = 0; // the newest load that has been answered
  }

  /** @param {() => void} listener @returns {() => void} stops listening */
  onChange(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** @param {number} id */
  get(id) {
    return this.known.get(Number(id)) ?? null;
  }

  get proposed() {
    return this.#newestFirst((each) => each.status === "proposed");
  }

  /** In force, and switched off ones. */
  get kept() {
    return this.#newestFirst((each) => each.status === "active" || each.status === "disabled");
  }

  /** @param {string} words all of which stand in the text or the key */
  matching(words) {
    const wanted = folded(words).split(/\s+/u).filter(Boolean);
    return this.#newestFirst((each) => {
      const text = folded(`${each.key} ${each.text}`);
      return wanted.every((word) => text.includes(word));
    });
  }

  async load() {
    const all = [];
    const { clock } = this;
    this.loads += 1;
    const { loads } = this;
    for (let next = "preferences/"; next; ) {
      const page = await this.api.get(next);
      all.push(...page.results);
      next = page.next;
    }
    if (loads < this.read) return; // the answer to a later question has come already
    this.read = loads;
    const isNewer = (/** @type {number} */ id) => (this.told.get(id) ?? 0) > clock;
    const read = all.filter((each) => !isNewer(each.id)).map((each) => [each.id, each]);
    this.known = new Map([...read, ...[...this.known].filter(([id]) => isNewer(id))]);
    this.#changed();
  }

  /** What is being read may be older than this. @param {number} id */
  #tell(id) {
    this.clock += 1;
    this.told.set(id, this.clock);
  }

  /** What a frame or an answer says of one. @param {Partial<import("./types.js").Preference>} preference */
  apply(preference) {
    const id = Number(preference.id);
    const now = /** @type {import("./types.js").Preference} */ ({ ...this.known.get(id), ...preference, id });
    this.#tell(id);
    this.known.set(id, now);
    if (now.status === "active") this.#retireOthers(now);
    this.#changed();
  }

  /** @param {number} id */
  drop(id) {
    this.#tell(Number(id));
    if (this.known.delete(Number(id))) this.#changed();
  }

  // --- Changes, which throw ApiError ----------------------------------------------------------

  /** @param {{key: string, text: string, session?: string, expires_at?: string | null}} values */
  async add(values) {
    this.apply(await this.api.post("preferences/", values));
  }

  /** @param {number} id @param {object} changes */
  async change(id, changes) {
    this.apply(await this.api.patch(`preferences/${id}/`, changes));
  }

  /** @param {number} id @param {boolean} keep */
  async answer(id, keep) {
    const { preference } = await this.api.post(`preferences/${id}/answer/`, { keep });
    if (preference) this.apply(preference);
    else this.drop(id);
  }

  /** @param {number} id @returns {Promise<import("./types.js").Receipt>} */
  async delete(id) {
    const { receipt } = await this.api.delete(`preferences/${id}/`);
    this.drop(id);
    return receipt;
  }

  // --------------------------------------------------------------------------------------------

  /** One is active per key. @param {import("./types.js").Preference} now */
  #retireOthers(now) {
    for (const other of this.known.values()) {
      const isSame = folded(other.key) === folded(now.key) && other.scope === now.scope;
      if (isSame && other.id !== now.id && other.status === "active") this.#retire(other.id);
    }
  }

  /** @param {number} id */
  #retire(id) {
    this.#tell(id);
    this.known.delete(id);
  }

  /** @param {(preference: import("./types.js").Preference) => boolean} isWanted */
  #newestFirst(isWanted) {
    return [...this.known.values()].filter(isWanted).sort((a, b) => b.id - a.id);
  }

  #changed() {
    this.listeners.forEach((listener) => listener());
  }
}

/** @param {string} text */
const folded = (text) => text.normalize("NFKC").toLowerCase();
