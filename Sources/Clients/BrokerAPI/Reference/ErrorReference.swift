/// `docs/errors.md`.
public enum ErrorReference {
  public static func markdown() -> String {
    let rows = ErrorReason.allCases.map { [Markdown.link($0.rawValue), "\($0.code)"] }
    let reasons = ErrorReason.allCases.map { reason in
      """
      ### `\(reason.rawValue)`

      \(Markdown.fill("\(reason.meaning) Code \(reason.code)."))

      \(Markdown.fill("What to do: \(reason.defaultHint)"))
      """
    }
    let table = Markdown.table(["reason", "code"], rows)
    return ([introduction, protocolErrors, "## Reasons\n\n\(table)"] + reasons).joined(separator: "\n\n") + "\n"
  }

  private static let example = RPCReply.failure(
    .number("1"),
    RPCError(
      .loginRequired, "the grant of work has ended", hint: "Sign in again with `grantctl login google work`.",
      oauth: OAuthDetail(error: "invalid_grant", error_description: "Token has been revoked.")))

  private static let introduction = """
    # Errors

    <!-- Made by grantd-reference from the error types; do not edit. -->

    A call that fails is answered with a JSON-RPC error object:

    \(Markdown.code("json", example.json.pretty()))

    \(fields.map { Markdown.bullet($0) }.joined(separator: "\n"))

    Codes and reasons keep their meaning for ever; new ones may be added, so treat
    an unknown reason by its `message` and `hint`. [rpc.md](rpc.md) says which
    reasons a method has.
    """

  private static let fields = [
    "`code`: one fixed number per reason, or one of JSON-RPC's own.",
    "`message`: what happened, for people. Its wording may change: do not compare it.",
    "`data.reason`: the word to branch on. Absent for JSON-RPC's own errors.",
    "`data.hint`: the next step.",
    "`data.retry_after`: seconds after which trying again makes sense.",
    "`data.oauth`: the provider's own message, if any: `error`, `error_description`, `error_uri` (RFC 6749 §5.2).",
    "`data.detail`: particulars, such as the fields that were refused.",
  ]

  private static let protocolErrors =
    "## JSON-RPC's own\n\n"
    + [
      "-32700 parse error: the line is not valid JSON or UTF-8, names a member twice or is nested too deep. The id is null. If the first line of a connection does not begin with { or [, or is too long, the connection is closed.",
      "-32600 invalid request: JSON, but no JSON-RPC 2.0 request; an empty batch, or one too long; a line with too many values.",
      "-32601 method not found: the hint names the method that was probably meant.",
      "-32602 invalid params: the message names the member, the expected and the received value.",
      "-32603 internal error: a bug of the broker. Its log says more; please report it.",
    ].map { Markdown.bullet($0) }.joined(separator: "\n")
}
