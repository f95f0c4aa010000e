// Answers each request with the document at API_URL, fetched with the token of ACCOUNT: service [PORT]
import Foundation
import FoundationNetworking
import Grantd

/// A redirect to another host would get the token.
final class NoRedirects: NSObject, URLSessionTaskDelegate {
  func urlSession(
    _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
    newRequest request: URLRequest, completionHandler: @escaping @Sendable (URLRequest?) -> Void
  ) { completionHandler(nil) }
}

struct Answer {
  var status: Int
  var retryAfter: Int?
  var body = Data()
}

let account = ProcessInfo.processInfo.environment["ACCOUNT"] ?? "work"
let api = URL(string: ProcessInfo.processInfo.environment["API_URL"]!)!
let session = URLSession(configuration: .ephemeral, delegate: NoRedirects(), delegateQueue: nil)

func status(_ answer: (Data, URLResponse)) -> Int { (answer.1 as? HTTPURLResponse)?.statusCode ?? 0 }

func answer() async -> Answer {
  do {
    // A token that the API refuses is reported, and the request sent once more.
    let found = try await GrantClient.shared.withToken(account, isUnauthorized: { status($0) == 401 }) { token in
      var request = URLRequest(url: api)
      request.setValue(token.header.value, forHTTPHeaderField: token.header.name)
      return try await session.data(for: request)
    }
    return status(found) == 200 ? Answer(status: 200, body: found.0) : Answer(status: 502)
  } catch let error as GrantError where error.reason == .temporarilyUnavailable {
    return Answer(status: 503, retryAfter: Int((error.retryAfter ?? .seconds(60)) / .seconds(1)))
  } catch {
    // The hint is for the administrator, not for the service's users.
    FileHandle.standardError.write(Data("\(error)\n".utf8))
    return Answer(status: GrantError.Reason.loginRequired ~= error ? 503 : 502)
  }
}

func serve(_ connection: FileHandle) async throws {
  // Each request gets the same answer: the rest of it is not read.
  guard !connection.availableData.isEmpty else { return }
  let answer = await answer()
  var head = "HTTP/1.1 \(answer.status) \(HTTPURLResponse.localizedString(forStatusCode: answer.status))\r\n"
  if let seconds = answer.retryAfter { head += "Retry-After: \(seconds)\r\n" }
  head += "Content-Length: \(answer.body.count)\r\nConnection: close\r\n\r\n"
  try connection.write(contentsOf: Data(head.utf8) + answer.body)
}

let port = CommandLine.arguments.count > 1 ? UInt16(CommandLine.arguments[1])! : 8080
let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
var address = sockaddr_in()
address.sin_family = sa_family_t(AF_INET)
address.sin_port = port.bigEndian
address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
let isBound = withUnsafeBytes(of: &address) { bytes in
  bind(listener, bytes.assumingMemoryBound(to: sockaddr.self).baseAddress!, socklen_t(bytes.count)) == 0
}
guard isBound, listen(listener, 16) == 0 else { fatalError("port \(port): \(String(cString: strerror(errno)))") }
// A client that hangs up is an error of its request only.
signal(SIGPIPE, SIG_IGN)
while true {
  let connection = FileHandle(fileDescriptor: accept(listener, nil, nil), closeOnDealloc: true)
  Task.detached { try? await serve(connection) }
}
