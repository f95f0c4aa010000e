import Foundation
import NIOCore
import NIOPosix
import TestSupport

/// The browser of a user in a login, one page at a time, each over a separate connection.
enum Browser {
  struct Page: Sendable {
    var status: Int
    var location: String?
    var body: String
  }

  /// Bytes.
  private static let largestAnswer = 1 << 20
  private static let deadline = Duration.seconds(40)

  /// - Parameter host: a Host header other than the address's own.
  static func open(_ url: String, host: String? = nil, token: String? = nil) async throws -> Page {
    guard let parts = URLComponents(string: url), let name = parts.host, let port = parts.port else {
      throw Failed("no address to open: \(url)")
    }
    let query = parts.percentEncodedQuery.map { "?\($0)" } ?? ""
    var request = "GET \(parts.percentEncodedPath)\(query) HTTP/1.1\r\nHost: \(host ?? "\(name):\(port)")\r\n"
    if let token { request += "Authorization: Bearer \(token)\r\n" }
    request += "Connection: close\r\n\r\n"
    let literal = name.trimmingCharacters(in: CharacterSet(charactersIn: "[]"))
    let channel = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
      .connect(host: literal, port: port) { channel in
        channel.eventLoop.makeCompletedFuture {
          try NIOAsyncChannel<ByteBuffer, ByteBuffer>(wrappingChannelSynchronously: channel)
        }
      }
    let hangUp = timeOut(after: deadline) { channel.channel.close(promise: nil) }
    defer { hangUp.cancel() }
    return try await channel.executeThenClose { inbound, outbound in
      try await outbound.write(ByteBuffer(string: request))
      var answer = ByteBuffer()
      for try await bytes in inbound where answer.readableBytes < largestAnswer { answer.writeImmutableBuffer(bytes) }
      return try page(String(buffer: answer))
    }
  }

  private static func page(_ answer: String) throws -> Page {
    guard let end = answer.range(of: "\r\n\r\n") else { throw Failed("no answer from the server") }
    let lines = answer[..<end.lowerBound].components(separatedBy: "\r\n")
    let words = lines[0].split(separator: " ")
    guard words.count >= 2, let status = Int(words[1]) else { throw Failed("not HTTP: \(lines[0])") }
    let location = lines.first { $0.lowercased().hasPrefix("location:") }
    return Page(
      status: status, location: location.map { $0.dropFirst(9).trimmingCharacters(in: .whitespaces) },
      body: String(answer[end.upperBound...]))
  }
}

/// The address that the provider sends the browser back to, and what a forger makes of it.
struct Callback: Sendable {
  var url: String

  var parameters: [URLQueryItem] {
    get { URLComponents(string: url)?.queryItems ?? [] }
    set {
      guard var components = URLComponents(string: url) else { return }
      components.queryItems = newValue
      url = components.string ?? url
    }
  }

  func value(_ name: String) -> String? { parameters.first { $0.name == name }?.value }

  func replacing(_ name: String, _ value: String) -> Callback { without(name).adding(name, value) }

  func without(_ name: String) -> Callback {
    var copy = self
    copy.parameters.removeAll { $0.name == name }
    return copy
  }

  func adding(_ name: String, _ value: String) -> Callback {
    var copy = self
    copy.parameters.append(URLQueryItem(name: name, value: value))
    return copy
  }

  func at(path: String) -> Callback {
    guard var components = URLComponents(string: url) else { return self }
    components.path = path
    return Callback(url: components.string ?? url)
  }
}
