/// `docs/rpc.md`.
public enum RPCReference {
  public static func markdown() -> String {
    let sections =
      [introduction, contents()] + Methods.descriptions.map { method($0) } + [types(), events(), howTo]
    return sections.joined(separator: "\n\n") + "\n"
  }

  private static let introduction = """
    # The socket

    <!-- Made by grantd-reference from the method types; do not edit. -->

    grantd answers on a Unix-domain stream socket:

    - the system's broker: `/run/grantd/grantd.sock`
    - a user's own: `$XDG_RUNTIME_DIR/grantd/grantd.sock`

    It speaks [JSON-RPC 2.0](https://www.jsonrpc.org/specification): one JSON text
    per line, in UTF-8, ended by a newline (`\\n`). The kernel identifies your
    process; there are no credentials. The rules of the configuration decide your
    access.

    - **Parameters** are given by name. An unknown name is an error.
    - **Absent** means unknown: results omit unknown members, and `null` for an
      optional parameter equals its absence.
    - **Times** are Unix seconds; durations are seconds.
    - **Order**: requests on one connection run at the same time and are answered as
      they finish. Match answers by `id`: a string, a number or null.
    - **Notifications** (requests without `id`) are executed and never answered.
    - **Batches**: an array of at most \(Incoming.maximumBatch) requests, answered by one array.
    - **Deadlines**: every request ends. Methods that can wait take a `timeout`, by
      default 30 seconds and at most 300. Work that has begun, such as a refresh,
      continues after a timeout or a closed connection.
    - **Limits**: a line is at most \(Incoming.maximumLine / 1024) KiB, nested at most \(JSON.maximumDepth) levels deep,
      and has at most \(Incoming.maximumValues) JSON values. More values, or a longer batch, are
      answered by one error with the id null. A connection with too many requests in
      flight is read again when some have finished; one that stays idle or leaves a
      line unfinished is closed. The connections of a user or unit that has used up
      its share of memory, lines or bytes a second are not read until there is room.
      `broker.status` counts that (`held_back`). Valid requests are answered as
      usual, only later; an invalid line gets `rate_limited`.
    - **Errors** carry `data.reason`, a code to branch on, and `data.hint`, the
      next step for the user: see [errors.md](errors.md).

    The same as an OpenRPC document: `rpc.discover`, or `grantctl openrpc` without a
    broker. An installation has it beside this page (`openrpc.json`).
    Examples below are spread over several lines to be read; on the wire each
    message is one line.
    """

  private static func contents() -> String {
    let methods = Methods.descriptions.map { [Markdown.link($0.name), $0.access.rawValue] }
    let accesses = Access.allCases.map { Markdown.bullet("`\($0.rawValue)`: \($0.meaning)") }
    return """
      ## Methods

      \(Markdown.table(["method", "access"], methods))

      Who may call a method:

      \(accesses.joined(separator: "\n"))
      """
  }

  private static func method(_ method: MethodDescription) -> String {
    var parts = ["### `\(method.name)`", Markdown.fill(method.summary), "Access: `\(method.access.rawValue)`."]
    parts.append(
      method.params.isEmpty ? "No parameters." : "Parameters:\n\n" + Markdown.members(method.params))
    switch method.result {
    case .object: parts.append("Result:\n\n" + Markdown.members(method.resultMembers))
    default: parts.append("Result: an OpenRPC \(OpenRPC.specification) document.")
    }
    let errors = method.errors.map { "`\($0.rawValue)`" }.joined(separator: ", ")
    parts.append(Markdown.fill("Errors: \(errors)."))
    let example = method.example
    let call = OutgoingCall(
      method: method.name, params: example.params == .null ? nil : example.params, id: .number("1"))
    let reply = RPCReply.success(.number("1"), example.result)
    parts.append(Markdown.code("json", call.json.pretty()))
    parts.append(Markdown.code("json", reply.json.pretty()))
    return parts.joined(separator: "\n\n")
  }

  /// The objects within parameters and results. A method's result is described at the method.
  private static func types() -> String {
    let results = Set(Methods.descriptions.map(\.result.words))
    let sections = OpenRPC.namedSchemas().compactMap { name, schema -> String? in
      guard case .object(let object) = schema, !results.contains(name) else { return nil }
      return "### `\(name)`\n\n" + Markdown.members(object.members)
    }
    return (["## Objects", "`AccountView` is what `account.get` returns."] + sections).joined(separator: "\n\n")
  }

  private static func events() -> String {
    let rows = EventType.allCases.map { ["`\($0.rawValue)`", $0.summary] }
    return """
      ## Events

      After `events.subscribe` the connection receives a notification `\(Event.method)` for each
      thing that happens to accounts the caller may see:

      \(Markdown.table(["type", "meaning"], rows))

      Its parameters:

      \(Markdown.members(JSONSchema(of: Event.self).members))

      \(Markdown.code("json", MethodExample.event.pretty()))

      A connection that does not read its events is closed; subscribe again, and read
      the missed changes from `account.list`.
      """
  }

  private static let howTo = """
    ## How to call it

    From Python, without any package:

    ```python
    import json, os, socket

    def token(account):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(os.environ.get("GRANTD_SOCKET", "/run/grantd/grantd.sock"))
            call = {"jsonrpc": "2.0", "id": 1, "method": "token.get",
                    "params": {"account": account}}
            s.sendall(json.dumps(call).encode() + b"\\n")
            reply = json.loads(s.makefile().readline())
        if "error" in reply:
            raise RuntimeError(reply["error"]["message"])
        return reply["result"]["access_token"]
    ```

    From a shell, `grantctl token work` prints the bare token:

    ```sh
    curl -H "Authorization: Bearer $(grantctl token work)" https://api.example.com/
    ```

    Without grantctl, any tool that connects to a Unix socket will do:

    ```sh
    echo '{"jsonrpc":"2.0","id":1,"method":"token.get","params":{"account":"me"}}' |
      socat -t 30 - UNIX-CONNECT:/run/grantd/grantd.sock
    ```

    Ask for the token each time you need one: the answer is kept by the broker and
    costs microseconds. When a resource server answers 401 although the token should
    be valid, call `token.report_rejected` with the token's `generation`, then
    `token.get` again, once.
    """
}
