"""A refresh token of another person, imported into an account that waits for a login."""

from caller import attempt
from machine import grantctl
from stage import hold

OWNER, ATTACKER = "ada", "mallory"


def ask_token(_, account):
    answer = attempt("token.get", account=account, timeout=20)
    return answer.get("access_token") or answer["reason"]


def whose(stage, realm, account):
    """Whose token the unit gets, or why it gets none."""
    said = stage.once(stage.machine.unit(), ask_token, account)
    return stage.provider.do(realm, "person", token=said)["user"] or said


def prepare(stage, **flags):
    """An account of Ada's whose grant has ended."""
    stage.begin("main")
    # Before grantd reads the metadata.
    stage.provider.set("main", **flags)
    stage.sign_in("main", "work", OWNER)
    stage.lose_grant("main", "work", OWNER)


def take_over(stage, who, user=ATTACKER):
    """What the import of that person's token is told, and whose token programs get then."""
    token = stage.provider.do("main", "seed", user=user)["refresh_token"]
    answer = stage.ask_as(who, "account.import", account="work", provider="main", refresh_token=token)
    return answer.get("reason", "imported"), whose(stage, "main", "work")


def is_refused(stage):
    told, person = take_over(stage, stage.machine.user("signer"))
    return hold([
        (told != "imported", f"the import is told: {told}"),
        (person != ATTACKER, f"the unit acts as: {person}")])


def by_id_token(stage):
    """An import whose ID token names another person is refused, and its token handed out to nobody."""
    prepare(stage)
    return is_refused(stage)


def by_userinfo(stage):
    """The same where UserInfo alone says who the person is."""
    prepare(stage)
    stage.provider.set("main", gives_id_token=False)
    return is_refused(stage)


def by_nothing(stage):
    """An import of a token whose person nothing names is refused where the account has an identity."""
    prepare(stage, has_userinfo=False)
    stage.provider.set("main", gives_id_token=False)
    return is_refused(stage)


def own_person(stage):
    """The account's own person may import, and who may manage may replace the identity by name."""
    prepare(stage)
    told, person = take_over(stage, stage.machine.user("signer"), OWNER)
    stage.lose_grant("main", "work", OWNER)
    token = stage.provider.do("main", "seed", user=ATTACKER)["refresh_token"]
    words = ["import", "work", "--provider", "main", "--replace-identity"]
    replaced = grantctl(*words, given=token + "\n")
    after = whose(stage, "main", "work")
    return hold([
        (told == "imported" and person == OWNER, f"the same person: {told}, the unit acts as {person}"),
        (replaced.returncode == 0, f"--replace-identity ends with {replaced.returncode}"),
        (after == ATTACKER, f"then the unit acts as {after}")])


CASES = {
    "import-other-person": by_id_token, "import-other-by-userinfo": by_userinfo, "import-unknown-person": by_nothing,
    "import-own-person": own_person}
