// Runs before the first paint, so that a chosen theme never flashes. The admin keeps the same key.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("theme");
  } catch {
    // Storage can be forbidden; the system's theme stands then.
    return;
  }
  if (chosen === "light" || chosen === "dark") {
    document.documentElement.dataset.theme = chosen;
  }
})();
