/** localStorage that may be forbidden or full: answers null or false then, and the page goes on. */

/** @param {string} key @returns {string | null} */
export function read(key) {
  try {
    return localStorage.getItem(key);
  } catch (error) {
    console.info("Storage cannot be read.", error);
    return null;
  }
}

/** @param {string} key @param {string | null} value null removes @returns {boolean} whether it was kept */
export function write(key, value) {
  try {
    if (value === null) localStorage.removeItem(key);
    else localStorage.setItem(key, value);
    return true;
  } catch (error) {
    console.info("Storage cannot be written.", error);
    return false;
  }
}

/** @param {string} prefix */
export function removeAll(prefix) {
  try {
    for (const key of Object.keys(localStorage)) {
      if (key.startsWith(prefix)) localStorage.removeItem(key);
    }
  } catch (error) {
    console.info("Storage cannot be cleared.", error);
  }
}
