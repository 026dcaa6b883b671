/** The REST API: fetch, CSRF, problem documents. */

const BASE = "/api/v1/";

export class ApiError extends Error {
  /**
   * @param {number} status 0 when no answer came
   * @param {string} code stable, see docs/protocol.md
   * @param {string} detail for people
   */
  constructor(status, code, detail) {
    super(detail);
    this.status = status;
    this.code = code;
  }

  get isOffline() {
    return this.status === 0;
  }
}

function csrfToken() {
  const cookie = document.cookie.split("; ").find((part) => part.startsWith("csrftoken="));
  if (cookie) return decodeURIComponent(cookie.slice("csrftoken=".length));
  const field = /** @type {HTMLInputElement | null} */ (
    document.querySelector("input[name=csrfmiddlewaretoken]")
  );
  return field?.value ?? "";
}

/** @param {Response} response */
async function problemOf(response) {
  const type = response.headers.get("content-type") ?? "";
  const problem = type.includes("json") ? await response.json() : {};
  const detail = problem.detail ?? `The server answered ${response.status} ${response.statusText}.`;
  return new ApiError(response.status, problem.code ?? `http_${response.status}`, detail);
}

export class Api {
  /** @param {() => void} onSignedOut */
  constructor(onSignedOut) {
    this.onSignedOut = onSignedOut;
  }

  /**
   * @param {string} method
   * @param {string} path below /api/v1/, or an address that the API gave
   * @param {any} [body]
   * @returns {Promise<any>} the answer's JSON, null for an empty one; throws ApiError
   */
  async request(method, path, body) {
    const url = new URL(path, new URL(BASE, location.href));
    /** @type {Record<string, string>} */
    const headers = { Accept: "application/json" };
    if (method !== "GET") headers["X-CSRFToken"] = csrfToken();
    const isForm = body instanceof FormData; // its type, with the boundary, is the browser's to say
    if (body !== undefined && !isForm) headers["Content-Type"] = "application/json";
    let response;
    try {
      response = await fetch(url.pathname + url.search, {
        method,
        headers,
        body: isForm || body === undefined ? body : JSON.stringify(body),
        credentials: "same-origin",
        cache: "no-store",
      });
    } catch (error) {
      console.info("No answer from the server.", error);
      throw new ApiError(0, "offline", "The server cannot be reached.");
    }
    if (response.status === 401) this.onSignedOut();
    if (!response.ok) throw await problemOf(response);
    return response.status === 204 ? null : response.json();
  }

  /** @param {string} path @returns {Promise<any>} */
  get(path) {
    return this.request("GET", path);
  }

  /** @param {string} path @param {unknown} body @returns {Promise<any>} */
  post(path, body) {
    return this.request("POST", path, body);
  }

  /** @param {string} path @param {unknown} body @returns {Promise<any>} */
  put(path, body) {
    return this.request("PUT", path, body);
  }

  /** @param {string} path @param {unknown} body @returns {Promise<any>} */
  patch(path, body) {
    return this.request("PATCH", path, body);
  }

  /** @param {string} path */
  delete(path) {
    return this.request("DELETE", path);
  }
}
