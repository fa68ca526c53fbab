// A round's draft as a drawn tree: the text before it at the top, each draft token below its parent, the model's
// own token at the end of the accepted path.
import { el, largest, svg, visibleText } from './dom.js';
import { draftText, originOf } from './reply.js';

const box = { width: 96, height: 22, gapX: 10, gapY: 14 };
const maxLetters = 11;

/**
 * Column and row of each node, the model's own token last. What was committed goes straight down, the first of other children too;
 * further ones have columns of their own.
 */
function placesOf(round, hasOwn) {
  const numDraft = round.parents.length;
  const parents = hasOwn ? [...round.parents, round.accepted.at(-1) ?? -1] : round.parents;
  const isCommitted = (node) => node === numDraft || round.accepted.includes(node);
  const children = parents.map(() => []);
  const roots = [];
  parents.forEach((parent, node) => (parent < 0 ? roots : children[parent]).push(node));
  const places = [];
  let columns = 1;
  const open = [];
  const enter = (nodes, row, column) => open.push(...nodes
    .toSorted((one, other) => isCommitted(other) - isCommitted(one))
    .map((node, rank) => ({ node, row, column: rank === 0 ? column : undefined })).toReversed());
  enter(roots, 1, 0);
  while (open.length > 0) {
    const { node, row, column } = open.pop();
    places[node] = { row, column: column ?? columns++ };
    enter(children[node], row + 1, places[node].column);
  }
  return { places, columns };
}

function centre({ row, column }) {
  return { x: column * (box.width + box.gapX) + box.width / 2 + 1, y: row * (box.height + box.gapY) + box.height / 2 + 1 };
}

function edge(from, to, name) {
  const [a, b] = [centre(from), centre(to)];
  const [top, bottom] = [a.y + box.height / 2, b.y - box.height / 2];
  const middle = (top + bottom) / 2;
  return svg('path', { class: `edge ${name}`, d: `M${a.x} ${top}C${a.x} ${middle} ${b.x} ${middle} ${b.x} ${bottom}` });
}

function node(place, shown, name) {
  const { x, y } = centre(place);
  const letters = [...shown].length > maxLetters ? `${[...shown].slice(0, maxLetters - 1).join('')}…` : shown;
  return svg('g', { class: `node ${name}` },
    svg('title', {}, `${shown}, ${name}`),
    svg('rect', { x: x - box.width / 2, y: y - box.height / 2, width: box.width, height: box.height, rx: 5 }),
    svg('text', { x, y: y + 4, 'text-anchor': 'middle' }, letters));
}

/** What the picture shows, in words. */
function inWords(round, own) {
  const accepted = new Set(round.accepted);
  const list = (nodes) => nodes.map((index) => `“${visibleText(draftText(round, index))}”`).join(' ') || 'none';
  const all = round.draft_tokens.map((_, index) => index);
  return `Draft tree of ${all.length} tokens. Accepted: ${list([...accepted])}. ` +
    `Rejected: ${list(all.filter((index) => !accepted.has(index)))}.` +
    (own === undefined ? '' : ` The model’s own token: “${visibleText(own)}”.`);
}

/** @param own text of the token that the model added, if the reply did not end before it */
export function drawTree(round, own) {
  const { places, columns } = placesOf(round, own !== undefined);
  const accepted = new Set(round.accepted);
  const root = { row: 0, column: 0 };
  const last = round.accepted.length > 0 ? places[round.accepted.at(-1)] : root;
  const end = places[round.parents.length];
  const width = columns * (box.width + box.gapX);
  const height = (largest(places.map((place) => place.row)) + 1) * (box.height + box.gapY);
  const picture = svg('svg', { class: 'tree', role: 'img', 'aria-label': inWords(round, own), width, height, viewBox: `0 0 ${width} ${height}` });
  round.parents.forEach((parent, index) =>
    picture.append(edge(parent < 0 ? root : places[parent], places[index], accepted.has(index) ? 'accepted' : 'rejected')));
  const kind = originOf(round, round.num_accepted);
  if (end) picture.append(edge(last, end, kind));
  picture.append(node(root, 'text so far', 'root'));
  round.draft_tokens.forEach((_, index) =>
    picture.append(node(places[index], visibleText(draftText(round, index)), accepted.has(index) ? 'accepted' : 'rejected')));
  if (end) picture.append(node(end, visibleText(own), kind));
  return el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Draft tree' }, picture);
}
