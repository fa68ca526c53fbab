// Markdown within lines: code, stress, links. Time grows with the length of the text, whatever is in it: no mark is
// searched for twice in the same place. Stress is paired as CommonMark does it.
import { el } from './dom.js';

const maxNested = 16; // elements in each other; marks that are deeper stay as they are written
const maxAddress = 2000;
const isWord = /[\p{L}\p{N}_]/u;
const punctuation = /[!-/:-@[-`{-~]/;
const begins = /[\\`*_~[\]]|https?:\/\//g;
const address = /[^\s<>()[\]"'`]{0,2000}/y;
const beforeTarget = /\s{0,9}<?/y;
const afterTarget = />?(?:\s{1,9}"[^"\n]{0,500}")?\s{0,9}\)/y;

/**
 * Appends lines {text, at} to `parent`.
 * @param put (parent, start, end): appends that part of the source as text
 */
export function writeInline(parent, lines, put) {
  const text = lines.map((line) => line.text).join('\n');
  const places = lines.flatMap((line) => Array.from({ length: line.text.length + 1 }, (_, index) => line.at + index));
  write(parent, new Reader(text).read(), (node, from, to) => putRuns(node, places, from, to, put));
  return parent;
}

/** Passes on the parts of a piece that are contiguous in the source. */
function putRuns(parent, places, from, to, put) {
  for (let start = from; start < to;) {
    let stop = start + 1;
    while (stop < to && places[stop] === places[stop - 1] + 1) ++stop;
    put(parent, places[start], places[stop - 1] + 1);
    start = stop;
  }
}

/** A link, or nothing for an address that a click should not run or fetch. */
function linkTo(text) {
  let url;
  try {
    url = new URL(text);
  } catch {
    return undefined;
  }
  if (!['http:', 'https:', 'mailto:'].includes(url.protocol)) return undefined;
  return el('a', { href: url.href, target: '_blank', rel: 'noopener noreferrer nofollow' });
}

/**
 * Cuts a text into pieces {kind, from, to}: `text`; `open` with its element, and `close`, whose part of the text is the
 * mark; `run` of marks of stress.
 */
class Reader {
  constructor(text) {
    this.text = text;
    this.pieces = [];
    this.plain = 0; // from here on, text waits to become a piece
    this.escaped = undefined; // the last place after a backslash that is no mark
    this.runs = []; // of stress that are not paired yet
    this.brackets = []; // that are open
    this.ticks = undefined; // length of a run of backticks to {places, next}
  }

  read() {
    const { text } = this;
    begins.lastIndex = 0;
    for (let found = begins.exec(text); found; found = begins.exec(text)) begins.lastIndex = this.take(found.index);
    this.add('text', this.plain, text.length);
    pair(this.runs);
    return this.pieces;
  }

  /** Reads the mark at a place; returns where to go on. */
  take(at) {
    const letter = this.text[at];
    if (letter === '\\') return this.takeEscape(at);
    if (letter === '`') return this.takeCode(at);
    if (letter === '[') return this.takeBracket(at);
    if (letter === ']') return this.takeLink(at);
    if (letter === 'h') return this.takeAddress(at);
    return this.takeRun(at);
  }

  add(kind, from, to, more) {
    if (kind !== 'text' || from < to) this.pieces.push({ kind, from, to, ...more });
  }

  /** The text before a mark becomes a piece. */
  endText(at) {
    this.add('text', this.plain, at);
    this.plain = at;
  }

  runEnd(at) {
    let end = at + 1;
    while (this.text[end] === this.text[at]) ++end;
    return end;
  }

  takeEscape(at) {
    if (!punctuation.test(this.text[at + 1] ?? '')) return at + 1;
    this.endText(at);
    this.plain = this.escaped = at + 1;
    return at + 2;
  }

  takeCode(at) {
    const start = this.runEnd(at);
    const close = this.closingTicks(start, start - at);
    if (close === undefined) return start;
    const stop = close + start - at;
    this.endText(at);
    this.add('open', at, start, { node: el('code') });
    this.add('text', start, close);
    this.add('close', close, stop);
    this.plain = stop;
    return stop;
  }

  /** The next run of so many backticks from a place on; places that are asked for never go back. */
  closingTicks(from, length) {
    if (!this.ticks) {
      this.ticks = new Map();
      for (const { 0: run, index } of this.text.matchAll(/`+/g)) {
        if (!this.ticks.has(run.length)) this.ticks.set(run.length, { places: [], next: 0 });
        this.ticks.get(run.length).places.push(index);
      }
    }
    const known = this.ticks.get(length);
    while (known?.places[known.next] < from) ++known.next;
    return known?.places[known.next];
  }

  takeBracket(at) {
    const isImage = at > this.plain && this.text[at - 1] === '!' && this.escaped !== at - 1;
    const from = isImage ? at - 1 : at;
    this.endText(from);
    this.brackets.push({ piece: this.pieces.length, at, numRuns: this.runs.length });
    this.add('text', from, at + 1);
    this.plain = at + 1;
    return at + 1;
  }

  takeLink(at) {
    const bracket = this.brackets.pop();
    const target = bracket && bracket.at + 1 < at && this.text[at + 1] === '(' ? this.targetAt(at + 2) : undefined;
    const node = target && linkTo(target.address);
    if (!node) return at + 1; // stays as it is written
    this.endText(at);
    pair(this.runs.splice(bracket.numRuns));
    for (const piece of this.pieces.slice(bracket.piece)) if (piece.isAddress) Object.assign(piece, { kind: 'text', to: piece.from });
    Object.assign(this.pieces[bracket.piece], { kind: 'open', node });
    this.add('close', at, target.stop);
    this.brackets = []; // no link contains another one
    this.plain = target.stop;
    return target.stop;
  }

  /** What follows "](": {address, stop}. Parentheses in an address are balanced. */
  targetAt(from) {
    const { text } = this;
    const start = matchEnd(beforeTarget, text, from);
    const end = addressEnd(text, start, Math.min(text.length, start + maxAddress));
    const stop = matchEnd(afterTarget, text, end);
    return stop === undefined ? undefined : { address: text.slice(start, end), stop };
  }

  takeAddress(at) {
    let end = matchEnd(address, this.text, at);
    const next = end;
    while (end > at && /[.,;:!?*_~]/.test(this.text[end - 1])) --end;
    const node = linkTo(this.text.slice(at, end));
    if (!node) return next;
    this.endText(at);
    this.add('open', at, at, { node, isAddress: true });
    this.add('text', at, end);
    this.add('close', end, end, { isAddress: true });
    this.plain = end;
    return end;
  }

  takeRun(at) {
    const { text } = this;
    const end = this.runEnd(at);
    const letter = text[at];
    if (letter === '~' && end - at !== 2) return end;
    const [before, after] = [text[at - 1] ?? ' ', text[end] ?? ' '];
    const isIn = (neighbour) => letter === '_' && isWord.test(neighbour); // snake_case
    const canOpen = !/\s/.test(after) && !isIn(before);
    const canClose = !/\s/.test(before) && !isIn(after);
    if (!canOpen && !canClose) return end;
    this.endText(at);
    const run = { kind: 'run', from: at, to: end, letter, left: end - at, canOpen, canClose, opens: [], closes: [] };
    this.pieces.push(run);
    this.runs.push(run);
    this.plain = end;
    return end;
  }
}

/** The first white space, angle bracket or closing parenthesis without an opening one. */
function addressEnd(text, start, most) {
  let depth = 0;
  for (let end = start; end < most; ++end) {
    const letter = text.charCodeAt(end);
    if (letter <= 0x20 || letter === 0x3c || letter === 0x3e) return end;
    if (letter === 0x28) ++depth;
    if (letter === 0x29 && --depth < 0) return end;
  }
  return most;
}

function matchEnd(pattern, text, from) {
  pattern.lastIndex = from;
  return pattern.test(text) ? pattern.lastIndex : undefined;
}

/**
 * Pairs runs of stress: `opens` and `closes` of each become the numbers of characters of its marks, the inner ones
 * first. What was searched in vain for one kind of run is not searched again.
 */
function pair(runs) {
  const open = [];
  const searched = {}; // by kind of a closing run: order of the last run that was no match
  runs.forEach((run, order) => {
    run.order = order;
    const kind = `${run.letter}${run.canOpen}${(run.to - run.from) % 3}`;
    while (run.canClose && run.left > 0) {
      let index = open.length - 1;
      while (index >= 0 && open[index].order > (searched[kind] ?? -1) && !fit(open[index], run)) --index;
      if (index < 0 || open[index].order <= (searched[kind] ?? -1)) {
        searched[kind] = open.at(-1)?.order ?? -1;
        break;
      }
      open.length = index + 1;
      const opener = open[index];
      const count = opener.left >= 2 && run.left >= 2 ? 2 : 1;
      opener.opens.push(count);
      run.closes.push(count);
      opener.left -= count;
      run.left -= count;
      if (opener.left === 0) open.pop();
    }
    if (run.canOpen && run.left > 0) open.push(run);
  });
}

/** CommonMark's rules 9 and 10: "*a**b*" is one pair with two asterisks in it. */
function fit(opener, closer) {
  if (opener.letter !== closer.letter) return false;
  const [one, other] = [opener.to - opener.from, closer.to - closer.from];
  return !(opener.canClose || closer.canOpen) || (one + other) % 3 !== 0 || (one % 3 === 0 && other % 3 === 0);
}

function stress(letter, count) {
  if (letter === '~') return el('del');
  return el(count === 2 ? 'strong' : 'em');
}

/** A run as marks and the text that is left of it. */
function marksOf(run) {
  const marks = [];
  let at = run.from;
  const add = (kind, count, node) => {
    marks.push({ kind, from: at, to: at + count, node });
    at += count;
  };
  for (const count of run.closes) add('close', count);
  add('text', run.left);
  for (const count of run.opens.toReversed()) add('open', count, stress(run.letter, count));
  return marks;
}

function write(parent, pieces, put) {
  const path = []; // {node, isShown} of the elements that are open
  let [from, to] = [0, 0]; // text that waits to be put, as one part
  const top = () => path.at(-1)?.node ?? parent;
  const flush = () => {
    if (from < to) put(top(), from, to);
    from = to;
  };
  const addText = (piece) => {
    if (piece.from !== to) flush();
    if (from === to) from = piece.from;
    to = piece.to;
  };
  for (const piece of pieces.flatMap((one) => (one.kind === 'run' ? marksOf(one) : one))) {
    const isShown = piece.kind === 'open' ? path.length >= maxNested : piece.kind === 'close' && path.at(-1).isShown;
    if (piece.kind === 'text' || isShown) addText(piece);
    else flush();
    if (piece.kind === 'close') path.pop();
    if (piece.kind !== 'open') continue;
    if (!isShown) top().append(piece.node);
    path.push({ node: isShown ? top() : piece.node, isShown });
  }
  flush();
}
