/// The page's only script: it loads the view again after an event, and counts the seconds of pending approvals. Everything
/// else works without it.
enum PageScript {
  static let text = """
    "use strict";
    (function () {
      var main = document.querySelector("main"), said = document.getElementById("said"), timer = null, due = 0;
      var isMissed = false, isComposing = false, typed = 0;
      // A list may be open, or the user types.
      function busy() {
        var active = document.activeElement;
        return Boolean(active && active.tagName === "SELECT") || isComposing || Date.now() - typed < 2000;
      }
      function loadIn(pause) {
        var at = Date.now() + pause;
        if (timer !== null && at >= due) return;
        clearTimeout(timer);
        due = at;
        timer = setTimeout(load, pause);
      }
      function soon() { loadIn(700); }
      // The controls and scrolling parts by what they are for: an element of the next version does the same as the last one.
      function controls(root) {
        var all = new Map();
        root.querySelectorAll("a, button, input, select, textarea, details, summary, pre, .scroll").forEach(function (element) {
          var form = element.closest("form"), words = [element.tagName, element.id, element.name, element.getAttribute("href")];
          if (element.type === "hidden") return;
          if (!element.id) words.push(element.getAttribute("aria-label") || element.textContent.replace(/[0-9]+/g, "0"));
          if (form) form.querySelectorAll("input[type=hidden]:not([name=form_token])").forEach(function (field) {
            words.push(form.getAttribute("action"), field.name, field.value);
          });
          var key = JSON.stringify(words), number = 0;
          while (all.has(key + number)) number += 1;
          all.set(key + number, element);
        });
        return all;
      }
      // What the user did stays: the focus, text in fields, open details, and where parts are scrolled to.
      function replace(old, fresh) {
        var active = old.contains(document.activeElement) ? document.activeElement : null, next = null, after = [];
        var now = controls(fresh), place = [window.scrollX, window.scrollY];
        controls(old).forEach(function (was, key) {
          var is = now.get(key);
          if (!is) return;
          if (was === active) next = is;
          if (was.tagName === "DETAILS") is.open = was.open;
          if (was.type === "checkbox") is.checked = was.checked;
          else if (/^(INPUT|SELECT|TEXTAREA)$/.test(was.tagName) && was.value !== was.defaultValue) is.value = was.value;
          if (was.scrollLeft || was.scrollTop) after.push([is, was.scrollLeft, was.scrollTop]);
        });
        var start = active && active.selectionStart, end = active && active.selectionEnd;
        old.replaceWith(document.adoptNode(fresh));
        after.forEach(function (part) { part[0].scrollTo(part[1], part[2]); });
        if (active) (next || fresh).focus({preventScroll: true});
        if (next && typeof start === "number") next.setSelectionRange(start, end);
        window.scrollTo(place[0], place[1]);
      }
      function load() {
        timer = null;
        if (main.querySelector("[data-still]")) return;
        isMissed = document.hidden;
        if (isMissed) return;
        if (busy()) return soon();
        fetch(location.href, {credentials: "same-origin", cache: "no-store", redirect: "error"}).then(function (answer) {
          if (!answer.ok) throw new Error("status");
          return answer.text();
        }).then(function (text) {
          var page = new DOMParser().parseFromString(text, "text/html"), fresh = page.querySelector("main");
          var nav = page.querySelector("nav");
          if (busy() || !fresh) return soon();
          replace(main, fresh);
          main = fresh;
          if (nav) replace(document.querySelector("nav"), nav);
          var news = main.getAttribute("data-said") || "";
          if (said.textContent !== news) said.textContent = news;
          document.title = page.title;
        }).catch(lost);
      }
      function lost() { document.getElementById("lost").hidden = false; }
      function count() {
        var now = Date.now() / 1000;
        document.querySelectorAll("[data-until]").forEach(function (element) {
          var left = Math.max(0, Math.round(Number(element.getAttribute("data-until")) - now));
          element.textContent = left < 60 ? left + " s" : Math.floor(left / 60) + " min " + left % 60 + " s";
        });
      }
      setInterval(function () { if (!document.hidden && main.querySelector("[data-until]")) count(); }, 1000);
      document.addEventListener("input", function () { typed = Date.now(); });
      document.addEventListener("compositionstart", function () { isComposing = true; });
      document.addEventListener("compositionend", function () { isComposing = false; });
      document.addEventListener("visibilitychange", function () { if (!document.hidden && isMissed) soon(); });
      var source = new EventSource("/live"), wasReady = false;
      source.onmessage = function (event) { loadIn(event.data === "now" ? 700 : 20000); };
      source.addEventListener("ready", function () {
        soon();
        wasReady = true;
        document.getElementById("lost").hidden = true;
      });
      source.onerror = function () { if (wasReady) lost(); };
    })();

    """
}
