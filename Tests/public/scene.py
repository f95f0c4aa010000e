"""The brokers of a run, and what one row uses."""

import os

from rig import Broker, Site, must

HEAD = '[callback]\nport = 0\n\n[http]\nunix = "http.sock"\n'


class Stage:
    """The broker that most rows share, and those of single rows."""

    def __init__(self, programs, folder):
        self.programs, self.folder = programs, folder
        self.broker, self.scenes = self.new_broker("shared"), []

    def new_broker(self, name):
        folder = self.folder / name
        folder.mkdir()
        return Broker(self.programs, folder)

    def start(self, scenes):
        """Starts all brokers, in the main thread: a program ends with the thread that started it."""
        self.scenes = scenes
        shared = [scene for scene in scenes if not scene.row.own]
        self.broker.configure(HEAD, [site for scene in shared for site in scene.sites])
        for scene in scenes:
            scene.prepare()
        brokers = {id(scene.broker): scene.broker for scene in scenes}
        for broker in brokers.values():
            broker.launch(**broker.variables)
        if shared:
            self.broker.ready()

    def close(self):
        for scene in self.scenes:
            scene.close()
        if self.broker.process:
            self.broker.process.stop()


class Scene:
    """One row with its providers."""

    def __init__(self, stage, row):
        self.stage, self.row, name = stage, row, row.identifier.lower()
        self.sites = [Site(f"{name}-{number}", section) for number, section in enumerate(row.sections, 1)]
        self.open_ones = []
        self.broker = stage.new_broker(name) if row.own else stage.broker
        for site in self.sites:
            site.broker = self.broker
        self.home = stage.folder / f"home-{name}"
        (self.home / ".config/grantd").mkdir(parents=True)

    def prepare(self):
        """The configuration of its own broker."""
        if self.row.own:
            self.broker.configure(self.row.own(self), self.sites)

    def run(self):
        if self.row.own:
            self.broker.ready()
        self.row.action(self, *self.sites)
        for site in self.sites:
            site.verdict()

    def close(self):
        for one in [*self.open_ones, *(site.fake for site in self.sites)]:
            one.close()
        if self.row.own and self.broker.process:
            self.broker.process.stop()

    def keep(self, one):
        """Closed at the end of the run."""
        self.open_ones.append(one)
        return one

    def ctl(self, *arguments, text=None, **more):
        """grantctl with the row's home folder."""
        return self.broker.ctl(*arguments, home=self.home, text=text, **more)

    def helper(self, *arguments, text=None, **more):
        return self.ctl("helper", *arguments, text=text, **more)

    def printed(self, *arguments, status=0, text=None, **more):
        """The standard output of a grantctl that must end with that status."""
        done = self.ctl(*arguments, text=text, **more)
        must(done.returncode == status, f"grantctl {' '.join(map(str, arguments))} ended with {done.returncode}, not "
             f"{status}: {done.stdout[-300:]} {done.stderr[-300:]}")
        return done.stdout

    def hosts(self, text):
        """Writes helper.toml."""
        path = self.home / ".config/grantd/helper.toml"
        path.write_text(text)
        os.chmod(path, 0o600)
