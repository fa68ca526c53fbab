// Making elements. Text always becomes a text node, never markup.

/** An element with attributes and children. A function as attribute listens to the event of that name. */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') node.addEventListener(name, value);
    else if (value === true) node.setAttribute(name, '');
    else if (value !== false && value !== undefined && value !== null) node.setAttribute(name, value);
  }
  for (const child of children) if (child !== undefined && child !== null) node.append(child);
  return node;
}

export function byId(id) {
  return document.getElementById(id);
}

const untold = []; // texts that wait; the first one is in the page
const leastTime = 200; // ms that a text stays, at least: one that is replaced at once is not told
let clearing;

/** Tells people who do not see the page, without moving their focus; one text after the other. */
export function announce(text) {
  untold.push(text);
  if (untold.length === 1) tellFirst();
}

/**
 * Only a text that differs is told, so one that is told twice gets a space. It goes after a while, because a search in
 * the page would find it, too.
 */
function tellFirst() {
  const [text] = untold;
  const region = document.querySelector('dialog[open] [role=status]') ?? byId('status'); // all behind a dialog is silent
  region.textContent = region.textContent === text ? `${text}\u00a0` : text;
  clearTimeout(clearing);
  clearing = setTimeout(() => (region.textContent = ''), 20_000);
  setTimeout(() => {
    untold.shift();
    if (untold.length > 0) tellFirst();
  }, leastTime);
}

const restoring = new WeakMap(); // timers of buttons that say something else for a moment

/** Copies, and says so on the button for a moment. */
export async function copyText(text, button) {
  const label = (button.dataset.label ??= button.textContent);
  let said = 'Copied';
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    said = copyWithSelection(text) ? 'Copied' : 'Not allowed';
  }
  announce(said);
  button.textContent = said;
  clearTimeout(restoring.get(button));
  restoring.set(button, setTimeout(() => (button.textContent = label), 1500));
}

/** Without https, browsers give pages other than localhost no clipboard but this one. */
function copyWithSelection(text) {
  const area = el('textarea', { class: 'hidden', 'aria-hidden': 'true' });
  area.value = text;
  const before = document.activeElement;
  (document.querySelector('dialog[open]') ?? document.body).append(area);
  area.select();
  const done = document.execCommand('copy');
  area.remove();
  before?.focus();
  return done;
}

/** Moves the focus out of an element that is about to go, because a browser would drop it. */
export function moveFocus(from, to, options) {
  if (from.contains(document.activeElement)) to.focus(options);
}

/** Hides a button or shows it; one that hides passes the focus on to `next`, which is near. */
export function setHidden(button, isHidden, next) {
  if (isHidden) moveFocus(button, next, { preventScroll: true });
  button.hidden = isHidden;
}

const touch = matchMedia('(pointer: coarse)');

/** Whether the pointer is a finger: then the keyboard is on the screen. */
export function isTouch() {
  return touch.matches;
}

/** Enter in a text box acts, Shift+Enter begins a new line. Keyboards on the screen have no Shift+Enter: there Enter begins one. */
export function actOnEnter(box, act) {
  box.enterKeyHint = isTouch() ? 'enter' : 'send';
  box.addEventListener('keydown', (event) => {
    // An input method takes the Enter that ends a word. Safari tells it by the code 229 only.
    const isTyping = event.isComposing || event.keyCode === 229;
    if (event.key !== 'Enter' || event.shiftKey || isTyping || isTouch()) return;
    event.preventDefault();
    act();
  });
}

/** One tab stop for a row of elements: arrow keys, Home and End move among them. */
export function roveFocus(container, selector) {
  const items = () => [...container.querySelectorAll(selector)];
  const moves = {
    ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -Infinity, End: Infinity,
  };
  container.addEventListener('keydown', (event) => {
    const move = moves[event.key];
    const from = items().indexOf(event.target);
    if (move === undefined || from < 0 || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const all = items();
    all[Math.min(all.length - 1, Math.max(0, from + move))].focus();
  });
  container.addEventListener('focusin', (event) => {
    if (!event.target.matches(selector)) return;
    for (const other of container.querySelectorAll(`${selector}[tabindex="0"]`)) other.setAttribute('tabindex', '-1');
    event.target.setAttribute('tabindex', '0');
  });
}

/** Whether the reader asked for less motion. */
export function prefersStillness() {
  return matchMedia('(prefers-reduced-motion: reduce)').matches;
}

/** The largest of some numbers, or 0; Math.max takes no more arguments than the stack has room for. */
export function largest(numbers) {
  return numbers.reduce((most, one) => Math.max(most, one), 0);
}

const units = [
  { name: 's', size: 1e6, decimals: 2 },
  { name: 'ms', size: 1e3, decimals: 1 },
  { name: 'µs', size: 1, decimals: 0 },
];

/** "1.24 s", "35.1 ms" or "14 µs"; of times that are `step` apart, with as many decimals as tell them apart. */
export function timeText(microseconds, step) {
  const { name, size, decimals } = units.find((unit) => microseconds >= unit.size) ?? units.at(-1);
  const needed = step === undefined ? decimals : Math.max(0, Math.ceil(Math.log10(size / step) - 1e-9));
  return `${(microseconds / size).toFixed(needed)} ${name}`;
}

/** A token with its white space visible. */
export function visibleText(text) {
  return text.replaceAll('\n', '⏎').replaceAll('\t', '⇥').replaceAll(' ', '␣');
}
