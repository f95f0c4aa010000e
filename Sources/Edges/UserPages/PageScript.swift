/// The page's only script: it loads the view again after an event, and counts the seconds of pending approvals. Everything
/// else works without it.
enum PageScript {
  static let text = """
    "use strict";
    (function () {
      var main = document.querySelector("main"), said = document.getElementById("said"), timer = null, due = 0, isMissed = false;
      function busy() {
        var active = document.activeElement;
        if (active && main.contains(active) && /^(INPUT|SELECT|TEXTAREA)$/.test(active.tagName)) return true;
        return false;
      }
      function loadIn(pause) {
        var at = Date.now() + pause;
        if (timer !== null && at >= due) return;
        clearTimeout(timer);
        due = at;
        timer = setTimeout(load, pause);
      }
      function soon() { loadIn(700); }
      function path(element) {
        return element && element.id ? "#" + CSS.escape(element.id) : null;
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
          var focus = path(document.activeElement), nav = page.querySelector("nav");
          if (busy() || !fresh) return soon();
          main.replaceWith(document.adoptNode(fresh));
          main = fresh;
          if (nav) document.querySelector("nav").replaceWith(document.adoptNode(nav));
          if (focus && document.querySelector(focus)) document.querySelector(focus).focus();
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
