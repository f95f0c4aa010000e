"""kubectl over TLS: v1 and v1beta1, the mapping and the account by name, a token that is refused, the end of the grant."""

import base64
import json

from rig import Handler, case, has, must, need

PODS = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"},
        "items": [{"metadata": {"name": "pod-1", "namespace": "default"}, "spec": {"containers": []}, "status": {}}]}
RESOURCES = {"kind": "APIResourceList", "groupVersion": "v1", "resources": [
    {"name": "pods", "singularName": "pod", "namespaced": True, "kind": "Pod", "verbs": ["get", "list"]}]}


class Cluster(Handler):
    def do_GET(self):
        token = self.bearer()
        self.server.seen.append(token)
        if not self.stage.is_alive(token):
            return self.json({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Unauthorized",
                              "message": "Unauthorized", "code": 401}, 401)
        path = self.path.partition("?")[0]
        answers = {"/api": {"kind": "APIVersions", "versions": ["v1"]}, "/api/v1": RESOURCES,
                   "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
                   "/api/v1/namespaces/default/pods": PODS, "/version": {"major": "1", "minor": "32"}}
        self.json(answers.get(path, {}), 200 if path in answers else 404)


def configuration(stage, server, version="v1", arguments=None, info=False, extension=None):
    arguments = ("--account", stage.account) if arguments is None else arguments
    cluster = {"server": server.url, "certificate-authority-data": base64.b64encode(stage.ca.read_bytes()).decode()}
    if extension:
        cluster["extensions"] = [{"name": "client.authentication.k8s.io/exec", "extension": extension}]
    plugin = {"apiVersion": f"client.authentication.k8s.io/{version}", "command": str(stage.bin / "grantctl"),
              "args": ["helper", "kubectl", *arguments], "interactiveMode": "Never", "provideClusterInfo": info}
    return stage.file(".kube/config", json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "c", "clusters": [{"name": "c", "cluster": cluster}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {"exec": plugin}}]}))


def kubectl(stage, *arguments):
    return stage.run(need("kubectl"), *(arguments or ("get", "pods")), KUBECACHEDIR=str(stage.folder / "kube-cache"))


@case("kubectl.get", "kubectl")
def get(stage):
    for version in ("v1", "v1beta1"):
        server = stage.serve(Cluster)
        configuration(stage, server, version)
        has(kubectl(stage).ok().out, "pod-1")
        must(set(server.seen) == {stage.token()}, f"{version}: the cluster saw {server.seen}")


@case("kubectl.mapping", "kubectl")
def mapping(stage):
    server = stage.serve(Cluster)
    configuration(stage, server, arguments=(), info=True)
    stage.map(server.place)
    has(kubectl(stage).ok().out, "pod-1")
    stage.map("other.example.com")
    has(kubectl(stage).fails().err, "no account is mapped to this cluster")
    configuration(stage, server, arguments=(), info=True, extension={"account": stage.account})
    has(kubectl(stage).ok().out, "pod-1")


@case("kubectl.revoked", "kubectl")
def revoked(stage):
    """The cluster refuses; a report, by hand or by another program, makes the next run work."""
    server = stage.serve(Cluster)
    configuration(stage, server)
    stage.revoke()
    kubectl(stage).fails()
    stage.report(stage.account)
    has(kubectl(stage).ok().out, "pod-1")


@case("kubectl.ended", "kubectl")
def ended(stage):
    server = stage.serve(Cluster)
    configuration(stage, server)
    with stage.ended() as hint:
        has(kubectl(stage).fails().err, hint)


@case("kubectl.bad_input")
def bad_input(stage):
    for info in ("{", "[]", '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v9"}', "x" * 100_000):
        done = stage.helper("kubectl", "--account", stage.account, KUBERNETES_EXEC_INFO=info)
        must(done.status == 1 and done.out == "" and done.err.count("\n") == 1 and done.is_prompt, f"{info[:40]}: {done}")
