// Bringing elements up to date without making those again that have not changed.

/** Makes `old` like `made`, which is used up. False, with nothing changed, if they are not elements of the same kind. */
export function keeps(old, made) {
  if (old.nodeType !== Node.ELEMENT_NODE || made.nodeType !== Node.ELEMENT_NODE) return false;
  if (old.localName !== made.localName || !hasSameAttributes(old, made)) return false;
  if (old.localName === 'button') return true; // its text may tell for a moment what it did
  const olds = [...old.childNodes];
  const news = [...made.childNodes];
  news.forEach((child, index) => {
    if (index >= olds.length) old.append(child);
    else if (!isSameText(olds[index], child) && !keeps(olds[index], child)) olds[index].replaceWith(child);
  });
  for (const gone of olds.slice(news.length)) gone.remove();
  return true;
}

function isSameText(old, made) {
  return old.nodeType === Node.TEXT_NODE && made.nodeType === Node.TEXT_NODE && old.data === made.data;
}

/** Other attributes than these are the page's: which token is the stop of Tab and has the tip, what a button said. */
const compared = ['class', 'data-token', 'href', 'start', 'aria-label'];

function hasSameAttributes(old, made) {
  return compared.every((name) => old.getAttribute(name) === made.getAttribute(name));
}
