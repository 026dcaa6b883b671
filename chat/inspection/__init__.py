"""Looking into one session: what a request was made of, why something was not in it, and what is
wrong. Nothing here writes a row or calls a model; texts are for the caller to show or to hide."""
