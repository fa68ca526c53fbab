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

const tip = byId('tip');
const gap = 4; // pixels between a token and its tip: less than between lines, where the pointer would come to another token
let owner;
let at; // where the owner was
let leaving;
let isHeld = false; // the pointer is on the tip

export function showTip(reply, index, element) {
  hideTip();
  owner = element;
  tip.replaceChildren(...describeToken(reply, index));
  tip.hidden = false;
  element.setAttribute('aria-describedby', 'tip');
  placeTip();
}

function placeTip() {
  const place = placeOf(owner);
  at = { left: place.left, top: place.top };
  const room = document.documentElement;
  const left = Math.max(8, Math.min(place.left, room.clientWidth - tip.offsetWidth - 8));
  const isBelow = place.bottom + tip.offsetHeight + gap + 6 < room.clientHeight;
  tip.style.left = `${left}px`;
  tip.style.top = `${isBelow ? place.bottom + gap : Math.max(8, place.top - tip.offsetHeight - gap)}px`;
}

/** Of a token that is broken between lines, the first part. */
function placeOf(element) {
  return element.getClientRects()[0] ?? element.getBoundingClientRect();
}

/** The pointer or the focus leaves the token: there is time to move the pointer onto the tip, where it can be read. */
export function leaveTip() {
  clearTimeout(leaving);
  leaving = setTimeout(hideTip, 150);
}

export function hideTip() {
  clearTimeout(leaving);
  isHeld = false;
  owner?.removeAttribute('aria-describedby');
  owner = undefined;
  tip.hidden = true;
}

/** Hides the tip of a token that is no longer there. */
export function dropLostTip() {
  if (owner && !owner.isConnected) hideTip();
}

document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape') hideTip();
});
// Not `pointerenter`, which also comes where the tip moves under a pointer that rests.
tip.addEventListener('pointermove', () => {
  isHeld = true;
  clearTimeout(leaving);
});
tip.addEventListener('pointerleave', () => {
  if (isHeld) leaveTip();
  isHeld = false;
});
tip.addEventListener('wheel', hideTip, { passive: true }); // who scrolls means the text behind it

/** The tip goes with a token that has the focus, as long as that can be seen. From a pointer, the text has gone. */
function scrolled() {
  if (!owner || isHeld) return;
  const { left, top, width, height } = placeOf(owner);
  if (left === at.left && top === at.top) return; // something else was scrolled
  const seen = document.elementFromPoint(left + width / 2, top + height / 2);
  const isSeen = owner.contains(seen) || tip.contains(seen);
  if (owner === document.activeElement && isSeen) placeTip();
  else hideTip();
}

document.addEventListener('scroll', scrolled, { capture: true, passive: true });
