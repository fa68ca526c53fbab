// What was written but not sent. It outlives a reload, and a tab that the browser has put away in the background.

/** Keeps the text of a box in the tab's storage when the page is left, and puts it back now. `read` gives what to keep. */
export function keepDraft(box, read = () => box.value) {
  const storeName = `paceline.draft.${box.id}`;
  const keep = () => {
    try {
      sessionStorage.setItem(storeName, read());
    } catch {
      // No room, or switched off: nothing is kept.
    }
  };
  try {
    box.value = sessionStorage.getItem(storeName) ?? box.value;
  } catch {
    // Switched off.
  }
  addEventListener('pagehide', keep);
  document.addEventListener('visibilitychange', () => document.hidden && keep()); // a tab that is put away later is not told
}
