// What is known of one token: a tip beside it, for the pointer and the keyboard alike.
import { byId, el, largest, visibleText } from './dom.js';
import { draftText, originOf, origins, rejectedAt } from './reply.js';

const maxRejected = 4; // shown of a tree's

/** The lines of a token's tip, as elements. */
export function describeToken(reply, index) {
  const token = reply.tokens[index];
  const round = reply.rounds[token.round];
  const origin = originOf(round, token.place);
  const lines = [
    el('p', {}, el('span', { class: `swatch ${origin}`, 'aria-hidden': 'true' }), el('strong', {}, origins[origin].label),
      `: ${origins[origin].meaning}`),
    el('p', {}, `Token ${index + 1} of ${reply.tokens.length}, `, el('code', {}, visibleText(token.text)), `, id ${token.id}`),
    el('p', {}, madeIn(token, round, origin)),
  ];
  const rejected = rejectedAt(round, token.place);
  if (rejected.length > 0) lines.push(el('p', {}, 'Rejected here: ', ...strike(round, rejected)));
  return lines;
}

function madeIn(token, round, origin) {
  const number = `Round ${token.round + 1}`;
  const drafter = round.drafter || 'none';
  if (origin === 'plain') return `${number}, position ${token.place + 1}, drafter: ${drafter}`;
  const depth = depthOf(round);
  if (origin === 'accepted') return `${number}, drafter ${drafter}, draft position ${token.place + 1} of ${depth}`;
  const position = origin === 'bonus' ? `after draft position ${depth}` : `at draft position ${token.place + 1} of ${depth}`;
  return `${number}, drafter ${drafter}, ${position}`;
}

/** Length of the longest path of a draft. */
export function depthOf(round) {
  const depths = [];
  round.parents.forEach((parent, node) => (depths[node] = parent < 0 ? 1 : depths[parent] + 1));
  return largest(depths);
}

function strike(round, nodes) {
  const shown = nodes.slice(0, maxRejected).flatMap((node) => [el('s', {}, el('code', {}, visibleText(draftText(round, node)))), ' ']);
  if (nodes.length > maxRejected) shown.push(`and ${nodes.length - maxRejected} more`);
  return shown;
}

let owner;

export function showTip(reply, index, element) {
  const tip = byId('tip');
  hideTip();
  owner = element;
  tip.replaceChildren(...describeToken(reply, index));
  tip.hidden = false;
  element.setAttribute('aria-describedby', 'tip');
  const place = element.getClientRects()[0] ?? element.getBoundingClientRect();
  const room = document.documentElement;
  const left = Math.max(8, Math.min(place.left, room.clientWidth - tip.offsetWidth - 8));
  const isBelow = place.bottom + tip.offsetHeight + 14 < room.clientHeight;
  tip.style.left = `${left}px`;
  tip.style.top = `${isBelow ? place.bottom + 8 : Math.max(8, place.top - tip.offsetHeight - 8)}px`;
}

export function hideTip() {
  owner?.removeAttribute('aria-describedby');
  owner = undefined;
  byId('tip').hidden = true;
}

/** Hides the tip of a token that is no longer there. */
export function dropLostTip() {
  if (owner && !owner.isConnected) hideTip();
}

document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape') hideTip();
});
document.addEventListener('scroll', hideTip, { capture: true, passive: true });
