"""The page by keyboard, in windows of several widths, and for screen readers (axe-core); what an update keeps."""

import json

from grantd_testing import wait_until
from grantd_testing.places import ROOT
from pictures import NARROW, Tour, emulate
from views import VIEWS, WAIT_SECONDS, clean, kill, shown
from world import Skip

WIDTHS = (NARROW, 768, 1200, 2000)
# The colours do not depend on the width.
SEEN = (("light", 1200), ("dark", 1200), ("light", NARROW))
LONGEST_NAME = 128
# More than any view has.
MOST_CONTROLS = 200
FOCUSED = """(e => [e.tagName, e.textContent.trim().slice(0, 40), e.closest('article')?.querySelector('h2').textContent ?? '',
  e.matches(':focus-visible')])(document.activeElement)"""
# Every control of the view that is to be seen.
CONTROLS = """[...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex="0"]')].filter(
  e => e.type !== 'hidden' && !e.disabled && e.checkVisibility({visibilityProperty: true}))"""
PLACE = """((e, controls) => { const r = e.getBoundingClientRect(), s = getComputedStyle(e); return {
  number: controls.indexOf(e), left: r.left + scrollX, right: r.right + scrollX, top: r.top + scrollY,
  bottom: r.bottom + scrollY, isSeen: r.bottom > 0 && r.top < innerHeight && r.right > 0 && r.left < innerWidth,
  outline: s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2} })(document.activeElement, %s)"""


def tab(page):
    key = {"key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9}
    page.call("Input.dispatchKeyEvent", type="rawKeyDown", **key)
    page.call("Input.dispatchKeyEvent", type="keyUp", **key)


def tab_to(page, words, card):
    """As a user who looks for a button."""
    for _ in range(MOST_CONTROLS):
        tab(page)
        if (found := page.evaluate(FOCUSED))[1:3] == [words, card]:
            return found
    raise AssertionError(f"Tab does not reach {words} of {card}")


def update(page, cause):
    """Something happens, and the page has loaded the view again."""
    page.evaluate("void (document.querySelector('main').isOld = true)")
    cause()
    wait_until(lambda: page.browser.settle(0.1) or page.evaluate("!document.querySelector('main').isOld"), WAIT_SECONDS,
               "the view is loaded again")


def kept(stage):
    """An update keeps the focus, the text and caret of a field, a choice, and where the page is scrolled to."""
    world = stage.world(accounts=["bank", "mail", "work"])
    page = world.open()
    update(page, lambda: None)
    before = tab_to(page, "Sign out", "work")
    kill(world, "mail")
    shown(page, "Sign-in needed")
    assert page.evaluate("document.querySelector('article h2').textContent") == "mail", page.text()
    assert before[3] and page.evaluate(FOCUSED) == before, (before, page.evaluate(FOCUSED))
    tab_to(page, "Sign in again", "bank")
    update(page, lambda: world.broker.ctl("logout", "bank"))
    assert page.evaluate("document.activeElement.id") == "main", page.evaluate(FOCUSED)
    page.open(world.origin + "/activity")
    emulate(page, "light", 360, 400)
    page.fill("#f-account", "mail")
    page.evaluate("document.getElementById('f-refused').click(); document.getElementById('f-unit').value = 'a.service'")
    page.evaluate("document.activeElement.setSelectionRange(1, 3); scrollTo(0, 300)")
    scrolled = page.evaluate("scrollY")
    update(page, lambda: kill(world, "work"))
    fields = page.evaluate(
        "(e => ['f-account', 'f-unit'].map(id => document.getElementById(id).value).concat(e.id, e.selectionStart, "
        "e.selectionEnd, document.getElementById('f-refused').checked))(document.activeElement)")
    assert fields == ["mail", "a.service", "f-account", 1, 3, True], fields
    assert scrolled > 0 and page.evaluate("scrollY") == scrolled, (scrolled, page.evaluate("scrollY"))
    clean(page)


def order(page, name):
    """Tab reaches every control once, in the order in which they are seen, and shows which one it is."""
    page.call("Page.bringToFront")
    page.evaluate("void (document.activeElement.blur(), getSelection().removeAllRanges(), scrollTo(0, 0))")
    controls, places = page.evaluate(CONTROLS + ".map(e => e.outerHTML.slice(0, 120))"), []
    for _ in range(MOST_CONTROLS):
        tab(page)
        place = page.evaluate(PLACE % CONTROLS)
        if place["number"] < 0:
            break
        places.append(place)
    reached = [place["number"] for place in places]
    first = reached.index(0) if 0 in reached else 0
    missing = [control for number, control in enumerate(controls) if number not in reached]
    assert not missing, f"{name}: Tab does not reach {missing}"
    assert reached[first:] + reached[:first] == list(range(len(controls))), f"{name}: the order is {reached}"
    for one, following in zip(places, places[1:]):
        assert one["isSeen"] and one["outline"], f"{name}: the focus is not seen at {controls[one['number']]}"
        is_back = following["bottom"] <= one["bottom"] and following["right"] <= one["left"]
        assert not is_back, f"{name}: Tab goes back to {controls[following['number']]}"


def axe_script():
    """None: it is not installed."""
    found = sorted((ROOT / ".build" / "python").glob("lib/python3*/site-packages/axe_core_python/axe.min.js"))
    return found[-1].read_text() if found else None


def violations(page, name, script):
    """What axe-core reports."""
    found = []
    page.evaluate(script + "; undefined")
    for scheme, width in SEEN:
        emulate(page, scheme, width)
        page.browser.settle(0.1)
        result = json.loads(page.evaluate(
            "axe.run(document, {resultTypes: ['violations']}).then(r => JSON.stringify(r.violations))"))
        found += [f"{name}, {scheme}, {width}: {one['id']}: {one['nodes'][0]['html'][:160]}: "
                  f"{one['nodes'][0].get('failureSummary', '')[:200]}" for one in result]
    emulate(page, "light")
    return found


def layout(stage):
    """In every view no width needs scrolling sideways, Tab reaches all controls in the order in which they are seen, and
    axe-core reports no violation, light and dark, wide and narrow."""
    tour, script, found = Tour(stage), axe_script(), []
    for name in tour.views():
        found += overflows(tour.page, name)
        order(tour.page, name)
        if script:
            found += violations(tour.page, name, script)
    long = "W" * LONGEST_NAME
    world = stage.world(accounts=[long])
    page = world.open()
    for path in VIEWS:
        page.open(world.origin + path.replace("work", long))
        found += overflows(page, f"{path} with a long name")
    assert not found, "; ".join(found[:12])
    if not script:
        raise Skip("axe-core is not installed: scripts/deps --tests installs it")


def overflows(page, name):
    """The widths at which a view has to be scrolled sideways."""
    found = []
    for width in WIDTHS:
        emulate(page, "light", width)
        needed, has = page.evaluate("(e => [e.scrollWidth, e.clientWidth])(document.documentElement)")
        if needed > has:
            found.append(f"{name} needs {needed} of {has} pixels")
    emulate(page, "light")
    return found


CASES = {"kept": kept, "layout": layout}
