import ArgumentParser
import BrokerAPI
import CredentialHelpers

struct RequestCommand: AccountCommand {
  static let configuration = CommandConfiguration(
    commandName: "request", abstract: "Send an HTTP request without exposing the token.",
    usage: "grantctl request <account> <method> <url> [options]",
    discussion: """
      The broker sends it with the token, only to the provider's own servers (api_base and api_origins of its \
      section). A refused token is refreshed once. A path that begins with a slash is below api_base. Redirects \
      are not followed. The type of a body is not guessed: say it with --header 'Content-Type: …'.

      The body is written to standard output unchanged; on a terminal, without control characters. For HTTP 400 and \
      higher the exit status is \(ExitStatus.httpError.rawValue), as with “curl --fail-with-body”.

      Examples:
        grantctl request work GET /me
        grantctl request work POST /items --data @item.json \\
          --header 'Content-Type: application/json'
        grantctl request work PUT /photo --data @photo.jpg --include
      """)

  @OptionGroup var named: AccountArgument
  @Argument(help: "The HTTP method, such as GET.")
  var method: String
  @Argument(help: "The URL, or a path below the provider's api_base.")
  var url: String
  @Option(
    name: [.customShort("H"), .long],
    help: ArgumentHelp("Header field to send. Can be repeated.", valueName: "name: value"))
  var header: [String] = []
  @Option(
    name: .shortAndLong,
    help: ArgumentHelp(
      "The body: a text, “@FILE” for a file's bytes, “-” or “@-” for standard input.", valueName: "data"))
  var data: String?
  @Flag(name: .shortAndLong, help: "Print the status and the header fields before the body.")
  var include = false
  @OptionGroup var options: GlobalOptions

  /// What the broker takes, in bytes.
  private static let longestBody = 128 * 1024

  func validate() throws {
    _ = try headers()
    try checkForms(("--include", include))
  }

  private func headers() throws -> [String: String] {
    var headers: [String: String] = [:]
    for text in header {
      guard let colon = text.firstIndex(of: ":"), colon > text.startIndex else {
        throw ValidationError("--header is 'Name: value', not “\(text)”.")
      }
      let value = text[text.index(after: colon)...].trimmed
      // Several of one name are one list (RFC 9110 §5.3).
      let name = String(text[..<colon])
      let before = headers.keys.first { $0.lowercased() == name.lowercased() }
      headers.merge([before ?? name: value]) { "\($0), \($1)" }
    }
    return headers
  }

  func run(in shell: Shell) async throws(Failure) {
    var params = RequestSend.Params(account: named.account, method: method, url: url, timeout: options.timeout)
    params.headers = header.isEmpty ? nil : try? headers()
    if let body = try await body(shell.terminal) {
      if let text = String(validating: body, as: UTF8.self) {
        params.body = text
      } else {
        params.body_base64 = Base64.encoded(body)
      }
    }
    let answer = try await shell.ask(RequestSend.self, params)
    let result = try answer.value()
    if shell.isJSON { shell.print(answer.json) } else { try show(result, in: shell) }
    guard result.status >= 400 else { return }
    if shell.isJSON { throw Failure.reported(.httpError) }
    throw Failure(.httpError, "the server answered with HTTP \(result.status)")
  }

  private func body(_ terminal: Terminal) async throws(Failure) -> [UInt8]? {
    guard let data else { return nil }
    if data == "-" || data == "@-" {
      guard let bytes = await terminal.input(Self.longestBody) else {
        throw Failure(.usage, "the body on standard input is longer than \(Self.longestBody / 1024) KiB")
      }
      return bytes
    }
    guard data.hasPrefix("@") else { return Array(data.utf8) }
    let path = String(data.dropFirst())
    switch terminal.files.bytes(path, Self.longestBody) {
    case .bytes(let bytes, _): return bytes
    case .unreadable(let reason): throw Failure(.usage, "the body cannot be read from \(path): \(reason)")
    }
  }

  private func show(_ result: RequestSend.Result, in shell: Shell) throws(Failure) {
    let terminal = shell.terminal
    if include {
      terminal.print("HTTP \(result.status)")
      for (name, value) in result.headers.sorted(by: { $0.key < $1.key }) {
        terminal.printWhole(SafeText.line("\(name): \(value)"))
      }
      terminal.print("")
    }
    guard let text = result.body else {
      guard let bytes = result.body_base64.flatMap(Base64.decoded) else { return }
      guard !terminal.isOutTTY else {
        return terminal.note("The body is \(bytes.count) bytes of no text: send them to a file or a program.")
      }
      return terminal.writeBytes(bytes)
    }
    guard terminal.isOutTTY else { return terminal.writeBytes(Array(text.utf8)) }
    // To Swift the two bytes at the end of a line of HTTP are one character.
    let lines = text.split(omittingEmptySubsequences: false) { $0 == "\n" || $0 == "\r\n" }
    // The last newline ends a line and begins none.
    terminal.print((lines.last == "" ? lines.dropLast() : lines[...]).map { SafeText.indented(String($0)) })
  }
}
