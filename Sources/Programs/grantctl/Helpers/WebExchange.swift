import CredentialHelpers

/// A form that is posted by curl(1): grantctl has no TLS of its own. Nothing secret is an argument.
struct WebExchange {
  private static let patience = Duration.seconds(25)
  private static let seconds = 20

  let terminal: Terminal

  func send(_ request: WebRequest) async throws(Problem) -> (status: Int, body: [UInt8]) {
    guard let program = terminal.programs.find("curl") else {
      throw Problem("curl is not installed, and the helper needs it")
    }
    let configuration = "url = \"\(Self.quoted(request.url))\"\ndata-raw = \"\(Self.quoted(request.body))\"\n"
    let command = [
      program, "-q", "--silent", "--show-error", "--max-time", "\(Self.seconds)", "--proto", "=https,http",
      "--write-out",
      "\n%{http_code}", "--config", "-",
    ]
    guard let ended = await terminal.machine.ask(command, Array(configuration.utf8), Self.patience) else {
      throw Problem("\(request.url) does not answer: try again later")
    }
    guard ended.status == 0 else {
      let words = SafeText.lines(ended.err).last ?? "curl ended with \(ended.status)"
      throw Problem("\(request.url) cannot be asked: \(words)")
    }
    guard let newline = ended.out.utf8.lastIndex(of: 0x0A), let status = Int(ended.out[newline...].dropFirst()) else {
      throw Problem("\(request.url) gives no HTTP answer")
    }
    return (status, Array(ended.out.utf8[..<newline]))
  }

  /// curl(1), `--config`.
  private static func quoted(_ text: String) -> String {
    text.map { $0 == "\"" || $0 == "\\" ? "\\\($0)" : $0.isNewline ? " " : String($0) }.joined()
  }
}
