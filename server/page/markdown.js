// Markdown to elements. Every piece of text remembers its place in the source, so that tokens can be marked in
// it. Markup is never read as HTML, images become links, and only http, https and mailto addresses are links.
// Time grows with the length of the text, whatever a model writes: patterns only look at the beginning of a line.
import { copyText, el } from './dom.js';
import { writeInline } from './inline.js';
import { keeps } from './keep.js';

const maxDepth = 12; // of lists and quotes in each other
const maxLanguage = 40; // letters of a code block's name
const marks = {
  fence: /^( {0,3})(`{3,}|~{3,})/,
  heading: /^ {0,3}(#{1,6})[ \t]+/,
  rule: /^ {0,3}[-*_]/,
  quote: /^ {0,3}> ?/,
  item: /^( {0,8})([-*+]|\d{1,9}[.)])( +|$)/,
  indent: /^(?: {4}| {0,3}\t)/,
};

/**
 * Appends `source` from `start` on to `parent`, block by block.
 * @param put (parent, start, end): appends that part of the source as text
 * @param known blocks of the last call [{start, end, source, node}]: those that are the same are kept, and what is the
 *   same in the others
 * @returns the blocks of this call, for the next one
 */
export function renderMarkdown(parent, source, start, end, put, known = []) {
  const blocks = blocksOf(linesOf(source, start, end), 0);
  const made = blocks.map((block, index) => {
    const old = known[index];
    const text = source.slice(block.start, block.end);
    // The last block, now or in the last call, may be unfinished, and its tokens may still change.
    const isWhole = index < Math.min(blocks.length, known.length) - 1;
    const isSame = isWhole && old.start === block.start && old.source === text;
    return { start: block.start, end: block.end, source: text, node: isSame ? old.node : updated(old, block, put) };
  });
  let next = parent.firstChild;
  for (const { node } of made) {
    if (node === next) next = next.nextSibling;
    else parent.insertBefore(node, next);
  }
  while (next) {
    const gone = next;
    next = next.nextSibling;
    gone.remove();
  }
  return made;
}

/** A block that may have changed. What is as it was keeps its elements, and with them the focus, a selection and how far it is scrolled. */
function updated(old, block, put) {
  const node = block.render(put);
  return old?.start === block.start && keeps(old.node, node) ? old.node : node;
}

/** Lines {text, at}; `at` is where the text begins in the source. */
function linesOf(source, start, end) {
  let at = start;
  return source.slice(start, end).split('\n').map((text) => {
    const line = { text, at };
    at += text.length + 1;
    return line;
  });
}

function withoutPrefix(line, count) {
  return { text: line.text.slice(count), at: line.at + count };
}

function isBlank(line) {
  return line.text.trim() === '';
}

function blocksOf(lines, depth) {
  const blocks = [];
  for (let index = 0; index < lines.length;) {
    if (isBlank(lines[index])) {
      ++index;
      continue;
    }
    const reader = readers.find((candidate) => candidate.begins(lines, index, depth));
    const { stop, render } = reader.read(lines, index, depth);
    const last = lines[stop - 1];
    blocks.push({ start: lines[index].at, end: last.at + last.text.length, render });
    index = stop;
  }
  return blocks;
}

function append(parent, blocks, put) {
  for (const block of blocks) parent.append(block.render(put));
  return parent;
}

function countWhile(lines, from, holds) {
  let index = from;
  while (index < lines.length && holds(lines[index], index)) ++index;
  return index;
}

const fence = {
  begins: (lines, index) => fenceOf(lines[index].text) !== undefined,
  read(lines, from) {
    const { indent, ticks, language } = fenceOf(lines[from].text);
    const isEnd = ({ text }) => {
      const bare = text.trim();
      return bare.length >= ticks.length && bare === ticks[0].repeat(bare.length) && marks.fence.test(text);
    };
    const end = countWhile(lines, from + 1, (line) => !isEnd(line));
    const inner = lines.slice(from + 1, end).map((line) => withoutPrefix(line, leading(line, indent)));
    return { stop: Math.min(end + 1, lines.length), render: (put) => codeBlock(inner, language, put) };
  },
};

function fenceOf(text) {
  const found = marks.fence.exec(text);
  if (!found) return undefined;
  const [whole, indent, ticks] = found;
  const info = text.slice(whole.length);
  if (ticks[0] === '`' && info.includes('`')) return undefined;
  return { indent: indent.length, ticks, language: info.trim().split(/\s/, 1)[0].slice(0, maxLanguage) };
}

function leading(line, most) {
  return Math.min(most, line.text.length - line.text.trimStart().length);
}

function codeBlock(lines, language, put) {
  const code = el('code');
  lines.forEach((line, index) => {
    const isLast = index === lines.length - 1;
    put(code, line.at, line.at + line.text.length + (isLast ? 0 : 1));
  });
  const shown = () => copy.closest('.code').querySelector('code'); // may be that of a later call
  const copy = el('button', { type: 'button', class: 'small', click: () => copyText(shown().textContent, copy) }, 'Copy code');
  const name = language || 'text';
  return el('div', { class: 'code' }, el('div', { class: 'code_head' }, el('span', {}, name), copy),
    el('pre', { tabindex: '0', role: 'region', 'aria-label': `Code, ${name}` }, code));
}

const heading = {
  begins: (lines, index) => marks.heading.test(lines[index].text),
  read(lines, from) {
    const { text, at } = lines[from];
    const [{ length: start }, level] = marks.heading.exec(text);
    const line = { text: withoutClosing(text.slice(start)), at: at + start };
    // Headings of the page come above those of a reply.
    return { stop: from + 1, render: (put) => writeInline(el(`h${Math.min(6, level.length + 3)}`), [line], put) };
  },
};

/** A heading's text without the marks that may close it. */
function withoutClosing(text) {
  const whole = text.trimEnd();
  let end = whole.length;
  while (whole[end - 1] === '#') --end;
  return end === 0 || /\s/.test(whole[end - 1]) ? whole.slice(0, end).trimEnd() : whole;
}

const rule = {
  begins(lines, index) {
    const { text } = lines[index];
    if (!marks.rule.test(text)) return false;
    const bare = text.replace(/[ \t]/g, '');
    return bare.length >= 3 && bare === bare[0].repeat(bare.length);
  },
  read: (lines, from) => ({ stop: from + 1, render: () => el('hr') }),
};

const quote = {
  begins: (lines, index, depth) => depth < maxDepth && marks.quote.test(lines[index].text),
  read(lines, from, depth) {
    const stop = countWhile(lines, from, (line) => marks.quote.test(line.text));
    const inner = lines.slice(from, stop).map((line) => withoutPrefix(line, marks.quote.exec(line.text)[0].length));
    return { stop, render: (put) => append(el('blockquote'), blocksOf(inner, depth + 1), put) };
  },
};

const list = {
  begins: (lines, index, depth) => depth < maxDepth && marks.item.test(lines[index].text),
  read(lines, from, depth) {
    const [, indent, mark] = marks.item.exec(lines[from].text);
    const isOrdered = /\d/.test(mark);
    const items = [];
    let at = from;
    while (at < lines.length) {
      const found = marks.item.exec(lines[at].text);
      if (!found || found[1].length > indent.length + 1 || /\d/.test(found[2]) !== isOrdered) break;
      const width = found[0].length;
      const stop = endOfItem(lines, at + 1, found[1].length, found[2].length);
      items.push(lines.slice(at, stop).map((line, index) => withoutPrefix(line, index === 0 ? width : leading(line, width))));
      at = stop;
    }
    const attributes = isOrdered ? { start: parseInt(mark, 10) } : {};
    return { stop: at, render: (put) => listOf(isOrdered ? 'ol' : 'ul', attributes, items, depth, put) };
  },
};

/** An item goes on with what is indented more than its mark, and with text that begins no other block. */
function endOfItem(lines, from, indent, markLength) {
  let stop = from;
  for (let index = from; index < lines.length; ++index) {
    const line = lines[index];
    if (isBlank(line)) continue;
    const least = indent + Math.min(2, markLength);
    const isIndented = leading(line, least) === least;
    if (!isIndented && (index > stop || startsBlock(line))) break;
    stop = index + 1;
  }
  return stop;
}

function listOf(tag, attributes, items, depth, put) {
  const whole = el(tag, attributes);
  for (const inner of items) whole.append(append(el('li'), blocksOf(inner, depth + 1), put));
  return whole;
}

const table = {
  begins: (lines, index) => lines[index].text.includes('|') && isColumns(lines[index + 1]?.text ?? ''),
  read(lines, from) {
    const stop = countWhile(lines, from + 2, (line) => line.text.includes('|'));
    const render = (put) => {
      const body = el('tbody');
      for (const line of lines.slice(from + 2, stop)) body.append(rowOf(line, 'td', put));
      return el('div', { class: 'table', tabindex: '0', role: 'region', 'aria-label': 'Table' },
        el('table', {}, el('thead', {}, rowOf(lines[from], 'th', put)), body));
    };
    return { stop, render };
  },
};

/** The line below a table's head. */
function isColumns(text) {
  const cells = text.trim().replace(/^\|/, '').replace(/\|$/, '').split('|');
  return text.includes('|') && cells.every((cell) => /^:?-+:?$/.test(cell.trim()));
}

function rowOf(line, tag, put) {
  const row = el('tr');
  for (const cell of cellsOf(line)) row.append(writeInline(el(tag), [cell], put));
  return row;
}

function cellsOf({ text, at }) {
  const cells = [];
  let from = 0;
  const cut = (to) => {
    const cell = text.slice(from, to);
    const isEdge = cell.trim() === '' && (from === 0 || to === text.length);
    if (!isEdge) cells.push({ text: cell.trim(), at: at + from + cell.length - cell.trimStart().length });
    from = to + 1;
  };
  for (let index = 0; index < text.length; ++index) {
    if (text[index] === '\\') ++index;
    else if (text[index] === '|') cut(index);
  }
  cut(text.length);
  return cells;
}

/** Code that is marked by four spaces. Not within a paragraph, which its own reader continues. */
const indented = {
  begins: (lines, index) => marks.indent.test(lines[index].text),
  read(lines, from) {
    let stop = countWhile(lines, from, (line) => marks.indent.test(line.text) || isBlank(line));
    while (isBlank(lines[stop - 1])) --stop;
    const inner = lines.slice(from, stop).map((line) => {
      const [mark] = marks.indent.exec(line.text) ?? [line.text]; // of a blank line, all that is there
      return withoutPrefix(line, mark.length);
    });
    return { stop, render: (put) => codeBlock(inner, '', put) };
  },
};

const paragraph = {
  begins: () => true,
  read(lines, from) {
    const stop = countWhile(lines, from + 1, (line, index) => !isBlank(line) && !startsBlock(line) && !table.begins(lines, index));
    const inner = lines.slice(from, stop).map((line) => withoutPrefix(line, leading(line, line.text.length)));
    return { stop, render: (put) => writeInline(el('p'), inner, put) };
  },
};

function startsBlock(line) {
  return [fence, heading, rule, quote, list].some((reader) => reader.begins([line], 0, 0));
}

// Lists and tables come before indented code: models indent them more than they should.
const readers = [fence, heading, rule, quote, list, table, indented, paragraph];
