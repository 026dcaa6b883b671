/** What is done after a wait takes the focus only from who has stayed: nobody is torn out of a box. */

let deeds = 0;
for (const kind of ["keydown", "pointerdown"]) {
  addEventListener(kind, () => (deeds += 1), { capture: true, passive: true });
}

/** @returns {() => boolean} whether the person has pressed nothing since */
export function whoStays() {
  const before = deeds;
  return () => deeds === before;
}
