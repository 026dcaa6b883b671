/** The sign-in page: whoever comes here by signing out leaves no drafts behind. */

import { forgetDrafts } from "./drafts.js";

if (!new URLSearchParams(location.search).has("next")) {
  forgetDrafts();
}
