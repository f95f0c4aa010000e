import Foundation
import NIOCore
import NIOHTTP1
import TestHTTP

/// The browser of a user in a login, one page at a time, each over a separate connection.
enum Browser {
  struct Page: Sendable {
    var status: Int
    var location: String?
    var body: String
  }

  /// - Parameter host: a Host header other than the address's own.
  static func open(_ url: String, host: String? = nil, token: String? = nil) async throws -> Page {
    var request = TestRequest(.GET, url)
    if let host { request.headers.add(name: "Host", value: host) }
    if let token { request.headers.add(name: "Authorization", value: "Bearer \(token)") }
    let answer = try await request.send(within: .seconds(40))
    return Page(
      status: answer.status, location: answer.headers.first(name: "Location"), body: answer.body ?? "")
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
