// Conversations kept in this browser: a bounded number of bounded size, the newest first.

const storeName = 'paceline.history';
const maxConversations = 30;
const maxLetters = 1_500_000; // of all; browsers allow about 5 million

/** [{id, title, messages: [{role, content, reply?}]}]; `reply` as Reply.toData gives it. */
export function loadHistory() {
  try {
    const list = JSON.parse(localStorage.getItem(storeName));
    return Array.isArray(list) ? list.filter((one) => typeof one?.id === 'string' && Array.isArray(one.messages)) : [];
  } catch {
    return [];
  }
}

/** Puts a conversation first. Where room is short, old replies lose their rounds, then old conversations go. */
export function saveConversation(conversation) {
  const others = loadHistory().filter((one) => one.id !== conversation.id);
  const list = [conversation, ...others].slice(0, maxConversations);
  for (let text = JSON.stringify(list); !store(text); text = JSON.stringify(list)) {
    if (!dropRounds(list) && !list.pop()) return;
  }
}

function store(text) {
  if (text.length > maxLetters) return false;
  try {
    localStorage.setItem(storeName, text);
    return true;
  } catch {
    return false;
  }
}

/** Takes the rounds off the oldest reply that has some; false if none has. */
function dropRounds(list) {
  const message = list.flatMap((one) => one.messages.toReversed()).findLast((one) => one.reply);
  if (!message) return false;
  delete message.reply;
  return true;
}

export function forgetConversation(id) {
  localStorage.setItem(storeName, JSON.stringify(loadHistory().filter((one) => one.id !== id)));
}

export function clearHistory() {
  localStorage.removeItem(storeName);
}
