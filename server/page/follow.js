// Keeps the end of a growing text in view, as long as the reader is there.
import { setHidden } from './dom.js';

export class Follower {
  /**
   * @param end an element behind the text
   * @param scroller the element that scrolls, if it does; else the page
   * @param button takes the reader back to the end; it is in the foot below the text
   */
  constructor(end, scroller, button) {
    Object.assign(this, { end, scroller, button, foot: button.parentElement, isFollowing: true, lastTop: 0 });
    // In narrow windows the foot covers the end of the page: the style sheet keeps what has the focus above it.
    const tellHeight = () => {
      const { offsetHeight: height } = this.foot;
      if (height > 0) document.documentElement.style.setProperty('--foot', `${height}px`); // 0 in a tab that is not open
    };
    new ResizeObserver(tellHeight).observe(this.foot);
    scroller.addEventListener('scroll', () => this.scrolled(scroller.scrollTop), { passive: true });
    addEventListener('scroll', () => this.scrolled(scrollY), { passive: true });
    button.addEventListener('click', () => this.toEnd());
  }

  /** Pixels of the text that are below what can be seen. */
  numHidden() {
    return this.end.getBoundingClientRect().top - this.foot.getBoundingClientRect().top;
  }

  /** Only the reader scrolls up; the page itself goes down only. */
  scrolled(top) {
    if (this.end.getClientRects().length === 0) return; // in a tab that is not open
    const isUp = top < this.lastTop;
    if (this.numHidden() < (isUp ? 2 : 48)) this.isFollowing = true;
    else if (isUp) this.isFollowing = false; // also at the first pixels of a smooth scrolling
    this.lastTop = top;
    setHidden(this.button, this.isFollowing, this.scroller);
  }

  /** The text has grown. */
  grown() {
    // In a narrow window, the reader may have gone on to the panel below the text.
    if (this.end.getBoundingClientRect().bottom < 0) this.isFollowing = false;
    if (this.isFollowing) this.end.scrollIntoView({ block: 'nearest' });
    else this.button.hidden = false;
  }

  /** The text can be seen again, after another tab: it may have grown, and its place may be lost. */
  shown() {
    if (this.isFollowing) this.toEnd();
    else this.button.hidden = false;
  }

  toEnd() {
    this.isFollowing = true;
    setHidden(this.button, true, this.scroller);
    this.end.scrollIntoView({ block: 'nearest' });
  }
}
