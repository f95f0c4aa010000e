"""Cases in which several threads, tasks or processes use a client at once, or a call is interrupted."""

import signal
import time

from broken import path
from fake import CLOSE, HOLD, SECRET, Fake, token
from rig import case, driving, must, wait_until

LONG_NAME = 20_000
MANY = 16


@case("one-connection")
def one_connection(stage, language):
    """Threads or tasks share a connection; a slow answer does not hold up another."""
    held = []

    def script(fake, request):
        held.append(token(request))
        if len(held) < 4:
            return HOLD
        answers, held[:] = b"".join(reversed(held)), []
        return answers
    with Fake(path(stage, language), script) as fake, driving(stage, language, fake.path) as driver:
        done = driver.ok(do="many", account="work", count=400, threads=4)
        must(done == {"good": 400, "failed": []}, done)
        must(fake.connections == 1, f"{fake.connections} connections")


@case("closed-among-many")
def closed_among_many(stage, language):
    """The connection ends while sixteen threads or tasks wait: each asks once more, and nothing is logged."""
    def script(fake, request):
        if fake.connections > 1:
            return token(request)
        return CLOSE if request["number"] == MANY else HOLD
    with Fake(path(stage, language), script) as fake, driving(stage, language, fake.path) as driver:
        done = driver.ok(do="many", account="work", count=10 * MANY, threads=MANY)
        must(done == {"good": 10 * MANY, "failed": []}, done)
        must(fake.connections == 2, f"{fake.connections} connections")


@case("closed-before-many")
def closed_before_many(stage, language):
    """The same before they begin. The loop of asyncio is blocked meanwhile, and does not notice it."""
    with Fake(path(stage, language), lambda fake, request: token(request)) as fake, \
            driving(stage, language, fake.path) as driver:
        driver.ok(do="token", account="work")
        driver.send(do="many", account="work", count=10 * MANY, threads=MANY, pause=2)
        time.sleep(0.1)
        fake.streams[0].shutdown(2)
        done = driver.answer()
        must(done.get("ok") == {"good": 10 * MANY, "failed": []}, done)


@case("long-lines")
def long_lines(stage, language):
    """Sixteen threads or tasks, whose lines and answers together are longer than the socket's buffers."""
    with Fake(path(stage, language), lambda fake, request: token(request)) as fake, \
            driving(stage, language, fake.path) as driver:
        done = driver.ok(do="many", account="x" * LONG_NAME, count=40 * MANY, threads=MANY)
        must(done == {"good": 40 * MANY, "failed": []}, done)
        sizes = {len(one["params"]["account"]) for one in fake.requests}
        must(fake.connections == 1 and sizes == {LONG_NAME}, f"{fake.connections} connections, {sizes}")


@case("mixed-lines", "c", "thread-sanitizer")
def mixed_lines(stage, language):
    """Threads with short lines, while others send lines that are longer than the library's buffer."""
    with Fake(path(stage, language), lambda fake, request: token(request)) as fake, \
            driving(stage, language, fake.path) as driver:
        done = driver.ok(do="many", account="x" * LONG_NAME, other="work", count=40 * MANY, threads=MANY)
        must(done == {"good": 40 * MANY, "failed": []}, done)
        sizes = {len(one["params"]["account"]) for one in fake.requests}
        must(fake.connections == 1 and sizes == {LONG_NAME, len("work")}, f"{fake.connections} connections, {sizes}")


@case("fork")
def fork(stage, language):
    """Parent and child have separate connections, also if another thread waits during the fork."""
    def script(fake, request):
        slow = next((one for one in fake.requests if one["params"]["account"] == "slow"), None)
        if slow and request["stream"] is slow["stream"] and request is not slow:
            return token(slow) + token(request)
        return HOLD if request is slow else token(request)
    with Fake(path(stage, language), script) as fake, driving(stage, language, fake.path) as driver:
        done = driver.ok(do="fork", account="work", slow="slow")
        must(done == {"before": SECRET, "child": SECRET, "after": SECRET}, done)
        must(fake.connections == 2, f"{fake.connections} connections")


@case("interrupted")
def interrupted(stage, language):
    """A signal, a cancelled task or context while a call waits."""
    def script(fake, request):
        return HOLD if request["params"]["account"] == "slow" else token(request)
    with Fake(path(stage, language), script) as fake, driving(stage, language, fake.path) as driver:
        driver.send(do="interrupted", account="slow", then="work")
        wait_until(lambda: fake.requests, 60, "the slow request")
        if language.interrupts_by_signal:
            # For the call to wait after it has sent the request.
            time.sleep(1)
            driver.process.send_signal(signal.SIGUSR1)
            if language.goes_on:
                time.sleep(0.5)
                fake.streams[0].sendall(token(fake.requests[0]))
        answer = driver.answer()
        must(answer.get("ok") == {"was_interrupted": not language.goes_on, "token": SECRET}, answer)
