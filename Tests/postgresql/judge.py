"""Whether the ledger of a strict provider agrees with what was promised of machines that share accounts."""

# Rows of every generation that any machine committed: a table of the test beside grantd's.
AUDIT = """
CREATE TABLE public.audit (account text, generation int8, at timestamptz DEFAULT clock_timestamp());
CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO public.audit (account, generation) VALUES (NEW.account, NEW.generation); RETURN NEW; END $$;
CREATE TRIGGER note AFTER INSERT OR UPDATE ON grantd.grants FOR EACH ROW EXECUTE FUNCTION public.note();
"""

# A request that arrived before its sender was killed may wait so long for the provider's thread.
QUEUED_SECONDS = 5


class Judge:
    def __init__(self, ledger, kills, saved):
        """`kills`: (peer, time) of each machine that was killed. `saved`: for each account the generations on disk, with
        the time of their commit."""
        self.ledger, self.kills, self.saved = ledger, kills, saved
        self.excused, self.problems = [], []
        # Accounts with a problem, and when. What follows a reused token is not judged.
        self.broken = []
        first = {}
        for request in ledger["requests"]:
            token = request["token"]
            if token in first:
                self.repeated(token, first[token], request)
            else:
                first[token] = request

    def repeated(self, token, first, second):
        name, _, number = token.rpartition("-r")
        if any(name == ended for ended, _ in self.excused + self.broken):
            return
        # The answer to token 1 is of generation 1.
        saved = [at for generation, at in self.saved.get(name, []) if generation >= int(number) and at <= second["at"]]
        killed = [at for peer, at in self.kills if peer == first["peer"]
                  and first["at"] - QUEUED_SECONDS <= at <= second["at"]]
        detail = f"{token}: sent by {first['peer']} at {first['at']:.3f} and by {second['peer']} at {second['at']:.3f}"
        if saved or not killed:
            self.broken.append((name, second["at"]))
        if saved:
            self.problems.append(f"{detail}, although its answer was saved at {saved[0]:.3f}")
        elif not killed:
            self.problems.append(f"{detail}, and the first was not killed")
        else:
            self.excused.append((name, f"{detail}; the first was killed at {killed[0]:.3f}"))
