// The start: connects the parts of the page.
import { Chat } from './chat.js';
import { announce, byId } from './dom.js';
import { Edit } from './edit.js';
import { Panel } from './panel.js';
import { Race } from './race.js';
import { Settings } from './settings.js';

const narrow = matchMedia('(max-width: 70rem)');

class Page {
  constructor() {
    this.settings = new Settings(() => this.showModels());
    this.panel = new Panel(byId('panel'));
    this.tabs = [...document.querySelectorAll('[role=tab]')];
    for (const tab of this.tabs) tab.addEventListener('click', () => this.open(tab));
    document.querySelector('[role=tablist]').addEventListener('keydown', (event) => this.moveTab(event));
    byId('show_origins').addEventListener('change', (event) => document.body.classList.toggle('unmarked', !event.target.checked));
    // Where there is room, settings and history are open.
    const fold = () => ['settings_box', 'history_box'].forEach((name) => (byId(name).open = !narrow.matches));
    narrow.addEventListener('change', fold);
    fold();
    this.chat = new Chat(this);
    this.edit = new Edit(this);
    this.race = new Race(this);
  }

  open(tab) {
    for (const other of this.tabs) {
      const isOpen = other === tab;
      other.setAttribute('aria-selected', String(isOpen));
      other.tabIndex = isOpen ? 0 : -1;
      byId(other.getAttribute('aria-controls')).hidden = !isOpen;
    }
  }

  moveTab(event) {
    const at = this.tabs.indexOf(event.target);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: this.tabs.length - 1 }[event.key];
    if (to === undefined || at < 0) return;
    event.preventDefault();
    const tab = this.tabs[(to + this.tabs.length) % this.tabs.length];
    this.open(tab);
    tab.focus();
  }

  raceThis(task, what) {
    this.open(byId('tab_race'));
    this.race.run(task, what);
  }

  /** False, with the reason shown, if nothing can be sent now. */
  canSend() {
    if (!this.settings.check()) return false;
    if (this.settings.models.length > 0) return true;
    this.settings.load();
    announce(byId('served').textContent);
    return false;
  }

  showModels() {
    const { model, failure } = this.settings;
    const served = byId('served');
    served.classList.toggle('failed', Boolean(failure) && failure.progress === undefined);
    if (failure?.needsKey) {
      served.textContent = 'This server wants an API key: enter it in the settings.';
      byId('settings_box').open = true;
    } else if (failure?.progress !== undefined) {
      served.textContent = `Loading the models: ${Math.floor(100 * failure.progress)} %`;
    } else if (failure) {
      served.textContent = `No models: ${failure.message}. Asking again …`;
    } else if (model) {
      const chats = model.meta?.chat_template === false ? ', continues text: it has no chat template' : '';
      served.textContent = `${model.id}, context of ${model.max_model_len} tokens${chats}`;
      if (this.hasFailed) announce(`Ready: ${served.textContent}`);
    }
    this.hasFailed = Boolean(failure);
  }
}

const page = new Page();
byId('settings').elements.model.addEventListener('change', () => page.showModels());
page.settings.load();
