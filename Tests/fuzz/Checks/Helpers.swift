import BrokerAPI
import Foundation

@testable import CredentialHelpers

extension Target {
  /// Input of a helper. Lines of the input that begin with `>` are arguments, lines that begin with `$` are
  /// variables, the rest is standard input; of each input every protocol makes something.
  static let helpers = Target(name: "helpers", longest: 4096) { bytes in
    let (invocation, input) = taken(bytes)
    for chosen in Protocols.all { try checkProtocol(chosen, invocation, input) }
  }

  /// The mapping of hosts to accounts, and the names of hosts.
  static let mapping = Target(name: "mapping", longest: 4096) { bytes in
    let text = decoded(bytes)
    let parts = text.split(separator: "\0", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
    let address = parts[0]
    if let host = HostName(address) {
      try expect(HostName(host.description) == host, "\(host) has another form")
      try expect(host.description.utf8.allSatisfy { $0 < 0x80 && !(0x41...0x5A).contains($0) }, "\(host) is not plain")
    }
    let place = ServerLocation(address)
    if let place {
      try expect(ServerLocation(place.name)?.host == place.host, "\(place.name) names another host")
      try expect(
        ServerLocation(untilPath(address))?.host == place.host,
        "the host \(place.host) is behind the end of the authority")
      _ = (place.isReadable, place.effectivePort)
    }
    var entries: [Mapping.Entry]
    do throws(MappingFile.Fault) {
      entries = try MappingFile.parse(parts.last ?? "")
    } catch {
      try expect(error.line >= 1 && error.line <= 1 + text.count { $0.isNewline }, "a fault in line \(error.line)")
      return
    }
    for entry in entries { try expect(!entry.account.isEmpty, "an entry has no account") }
    entries += entries
    let choice = Mapping(files: [entries, entries]).choose(HelperTokenRequest(place: place), for: "git")
    if case .entry(let entry) = choice, let place {
      let isHis =
        entry.isWildcard ? place.host.description.hasSuffix("." + entry.host.description) : place.host == entry.host
      try expect(isHis, "the entry of \(entry.host) is taken for \(place.host)")
      try expect(!place.isReadable || entry.allowsInsecureHTTP, "a token would travel readable to \(place.host)")
      let escapes = ["%2f", "%5c", "/../", "/%2e%2e/"].contains {
        place.path.lowercased().utf8.firstRange(of: $0.utf8) != nil
      }
      try expect(entry.path == nil || !escapes, "\(place.path) is taken to be below a path")
    }
  }

  /// The part of a URL that a client connects to (RFC 3986 §3.2).
  private static func untilPath(_ address: String) -> String {
    let bytes = Array(address.utf8)
    let start = bytes.firstRange(of: Array("://".utf8))?.upperBound ?? 0
    return decoded(bytes[..<start] + bytes[start...].prefix { !"/?#".utf8.contains($0) })
  }

  private static func taken(_ bytes: [UInt8]) -> (Invocation, [UInt8]) {
    var invocation = Invocation(arguments: [])
    var input: [UInt8] = []
    for line in bytes.split(separator: 0x0A, omittingEmptySubsequences: false) {
      switch line.first {
      case UInt8(ascii: ">") where input.isEmpty: invocation.arguments.append(decoded(line.dropFirst()))
      case UInt8(ascii: "$") where input.isEmpty:
        let parts = decoded(line.dropFirst()).split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        invocation.environment[String(parts[0])] = parts.count == 2 ? String(parts[1]) : ""
      default: input += line + [0x0A]
      }
    }
    return (invocation, input)
  }

  /// A token of the widest characters, so that an answer that leaves out an escape shows it.
  private static let token = IssuedToken(text: "eyJ.\"\\.~", expiresAt: 1_767_225_600, username: "a\"b\\c")

  private static func checkProtocol<P: CredentialProtocol>(
    _ chosen: P.Type, _ invocation: Invocation, _ input: [UInt8]
  ) throws {
    _ = P.input(invocation).isComplete(input)
    let asked: P
    do throws(Malformed) {
      asked = try P(invocation, input: input)
    } catch {
      let reply = P.refusal(Problem(error.description), invocation)
      try expect(P.name != "git" || reply.out.isEmpty, "git gets an answer to a refused request")
      if reply.out.first == UInt8(ascii: "{") {
        try expect((try? JSON.parse(reply.out)) != nil, "\(P.name) refuses without JSON")
      }
      return
    }
    guard case .token = asked.request else { return }
    if let exchanging = asked as? any Exchanging { return try checkExchange(exchanging, input) }
    guard let reply = try? asked.answer(token) else { return }
    try expect(reply.status == 0 && reply.err == nil, "\(P.name) answers with status \(reply.status)")
    // Base64 hides it: go's Basic.
    try expect(P.name == "go" || decoded(reply.out).contains("eyJ."), "\(P.name) answers without the token")
    if reply.out.first == UInt8(ascii: "{") {
      try expect(
        (try? JSON.parse(reply.out)) != nil, "\(P.name) answers without JSON: \(decoded(reply.out))")
    }
  }

  private static func checkExchange(_ asked: any Exchanging, _ input: [UInt8]) throws {
    if let sent = try? asked.exchange(token) {
      try expect(!sent.body.contains("\"") && !sent.body.contains("\n"), "a form is not escaped")
    }
    for status in [200, 400] { _ = try? asked.outcome(status: status, body: input) }
  }
}
