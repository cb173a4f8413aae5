// Before anything is drawn, so that a dark room stays dark. No module: modules run after the first paint.
'use strict';
(() => {
  const kept = localStorage.getItem('tarrymq.theme');
  if (kept === 'light' || kept === 'dark') document.documentElement.dataset.theme = kept;
})();
