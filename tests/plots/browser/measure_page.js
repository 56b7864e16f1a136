// Measures the page as it is drawn now and returns what is wrong with it, as a list of sentences, and which charts it
// shows. Runs as one expression inside of the page; the page itself has no script.
(() => {
  const kSlack = 1;       // pixels that rounding may take
  const problems = [];
  const print = matchMedia('print').matches;
  const view = document.documentElement.clientWidth;
  const isPage = document.documentElement.localName === 'html';
  const short = (text) => JSON.stringify(text.trim().slice(0, 40));
  // What is folded away has a place, too, but is not drawn.
  const visible = (element) => element.getClientRects().length > 0 && element.checkVisibility();
  const inside = (a, b) =>
    a.left >= b.left - kSlack && a.right <= b.right + kSlack && a.top >= b.top - kSlack && a.bottom <= b.bottom + kSlack;

  // The box of what is drawn of a line of text: glyphs without the leading above and below.
  const inkBox = (rect) => {
    const cut = rect.height * 0.14;
    return {left: rect.left + 0.5, right: rect.right - 0.5, top: rect.top + cut, bottom: rect.bottom - cut};
  };
  const overlap = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > kSlack &&
                            Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > kSlack;
  const reportOverlaps = (where, boxes) => {
    boxes.sort((a, b) => a.box.top - b.box.top);
    for (let i = 0; i < boxes.length; ++i) {
      for (let j = i + 1; j < boxes.length && boxes[j].box.top < boxes[i].box.bottom; ++j) {
        if (overlap(boxes[i].box, boxes[j].box)) problems.push(`${where}: ${short(boxes[i].text)} overlaps ${short(boxes[j].text)}`);
      }
    }
  };

  const parse = (colour) => (colour.match(/[\d.]+/g) || []).map(Number);
  const luminance = (colour) => {
    const [r, g, b] = parse(colour).slice(0, 3).map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05);
  };
  const opaque = (colour) => { const v = parse(colour); return v.length >= 3 && (v.length < 4 || v[3] > 0.99); };
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (colour && opaque(colour)) return colour;
    }
    return 'rgb(255, 255, 255)';
  };

  // Drawings.
  const charts = [];
  for (const svg of document.querySelectorAll('svg')) {
    if (!visible(svg)) continue;
    const frame = svg.getBoundingClientRect();
    const figure = svg.closest('figure');
    const where = figure ? figure.id : svg.getAttribute('aria-labelledby');
    charts.push(figure ? figure.dataset.chart : where);
    const marks = [...svg.querySelectorAll('rect, path, polyline, polygon')].filter((mark) => !mark.closest('defs'));
    if (marks.length < 8) problems.push(`${where}: only ${marks.length} marks`);
    if (frame.width < 250 || frame.height < 60) problems.push(`${where}: only ${frame.width} by ${frame.height} pixels`);
    for (const mark of marks) {
      if (!inside(mark.getBoundingClientRect(), frame)) problems.push(`${where}: a mark is cut: ${mark.outerHTML.slice(0, 90)}`);
    }
    const texts = [...svg.querySelectorAll('text')].filter((text) => text.textContent.trim());
    const boxes = [];
    for (const text of texts) {
      const own = [...text.childNodes].filter((node) => node.nodeType === 3).map((node) => node.data).join('');
      const rect = text.getBoundingClientRect();
      boxes.push({box: inkBox(rect), text: own});
      if (!inside(rect, frame)) problems.push(`${where}: ${short(own)} is cut`);
      const size = rect.height / 1.2;
      if (size < 9) problems.push(`${where}: ${short(own)} is only ${size.toFixed(1)} pixels high`);
      // The ground of the text: the last filled box drawn before it that holds its middle.
      const x = (rect.left + rect.right) / 2, y = (rect.top + rect.bottom) / 2;
      let under = ground(svg);
      for (const mark of marks) {
        if (mark.localName !== 'rect' || mark.compareDocumentPosition(text) !== Node.DOCUMENT_POSITION_FOLLOWING) continue;
        const box = mark.getBoundingClientRect(), style = getComputedStyle(mark);
        if (box.left <= x && x <= box.right && box.top <= y && y <= box.bottom && style.fill.startsWith('rgb') && style.fillOpacity === '1') under = style.fill;
      }
      const ratio = contrast(getComputedStyle(text).fill, under);
      if (ratio < 4.5) problems.push(`${where}: ${short(own)} has a contrast of only ${ratio.toFixed(2)}`);
    }
    reportOverlaps(where, boxes);
    if (!svg.querySelector(':scope > title')?.textContent || !svg.querySelector(':scope > desc')?.textContent) {
      problems.push(`${where}: no title or description`);
    }
  }

  // Text of the page.
  if (isPage) {
    if (document.documentElement.scrollWidth > view) {
      problems.push(`the page is ${document.documentElement.scrollWidth} pixels wide in a window of ${view}`);
    }
    const boxes = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode, parent = node.parentElement;
      if (!node.data.trim() || parent.closest('svg') || !visible(parent)) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      // A box that scrolls may hide what is reached by scrolling; paper does not scroll.
      const scrolls = !print && parent.closest('.scroll');
      for (const rect of range.getClientRects()) {
        if (rect.width === 0) continue;
        if (!scrolls) {
          boxes.push({box: inkBox(rect), text: node.data});
          if (rect.left < -kSlack || rect.right > view + kSlack) problems.push(`${short(node.data)} is cut by the window's edge`);
        }
      }
      const card = parent.closest('figure, .table, .key li, .caution, dl, .missing');
      if (card && !scrolls) {
        const outer = card.getBoundingClientRect();
        for (const rect of range.getClientRects()) {
          if (!inside(rect, outer)) problems.push(`${short(node.data)} sticks out of its box`);
        }
      }
      const ratio = contrast(getComputedStyle(parent).color, ground(parent));
      if (ratio < 4.5) problems.push(`${short(node.data)} has a contrast of only ${ratio.toFixed(2)}`);
    }
    reportOverlaps('page', boxes);
    for (const element of document.querySelectorAll('script, iframe, object, embed, link, img, video, audio')) {
      problems.push(`the page has a <${element.localName}>`);
    }
  }
  return {problems: problems.slice(0, 25), count: problems.length, charts, height: Math.ceil(document.documentElement.scrollHeight || 0)};
})()
