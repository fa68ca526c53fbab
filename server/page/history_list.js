// The list of the conversations that the browser keeps.
import { byId, el } from './dom.js';
import { clearHistory, forgetConversation, loadHistory, onHistoryChange } from './history.js';

export class HistoryList {
  /** @param chat {conversation, open(conversation), begin(), toEnd()} */
  constructor(chat) {
    this.chat = chat;
    this.element = byId('history');
    byId('clear_history').addEventListener('click', () => {
      if (!confirm('Remove all conversations from this browser?')) return;
      clearHistory(chat.conversation);
      chat.begin();
    });
    onHistoryChange(() => this.update());
  }

  update() {
    const list = loadHistory();
    const focused = focusIn(this.element);
    byId('history_box').hidden = list.length === 0;
    this.element.replaceChildren(...list.map((one) => this.line(one)));
    if (focused) restoreFocus(this.element, focused);
  }

  line(one) {
    const { chat } = this;
    const isOpen = one.id === chat.conversation.id;
    const title = one.title || 'Untitled';
    const forget = () => {
      if (!confirm(`Remove “${title}” from this browser?`)) return;
      forgetConversation(one.id);
      if (one.id === chat.conversation.id) chat.begin();
      else this.update();
    };
    const open = () => {
      if (one.id === chat.conversation.id) chat.toEnd(); // a reply may arrive in it
      else chat.open(loadHistory().find(({ id }) => id === one.id) ?? one);
    };
    return el('li', { 'data-id': one.id },
      el('button', { type: 'button', class: 'link', 'aria-current': isOpen ? 'true' : undefined, click: open }, title),
      el('button', { type: 'button', class: 'small', 'aria-label': `Remove “${title}”`, click: forget }, '×'));
  }
}

/** Where the focus is in a list that is made again: {id, button, item}. */
function focusIn(list) {
  const { activeElement: element } = document;
  if (!list.contains(element) || element === list) return undefined;
  const line = element.closest('li');
  return { id: line.dataset.id, button: [...line.children].indexOf(element), item: [...list.children].indexOf(line) };
}

/** To the same button, to that of the next line where the line has gone, or to the message where no line is left. */
function restoreFocus(list, { id, button, item }) {
  const lines = [...list.children];
  const line = lines.find((one) => one.dataset.id === id) ?? lines[Math.min(item, lines.length - 1)];
  (line?.children[button] ?? byId('message')).focus();
}
