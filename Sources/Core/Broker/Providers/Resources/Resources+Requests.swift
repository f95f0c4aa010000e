import BrokerAPI
import FoundationEssentials
import Grants
import OAuth

// The requests for the documents of a resource, and their limits.
extension Resources {
  enum Document { case resource, discovery }

  /// Redirects are followed within the origin.
  func response(
    _ url: URL, _ accept: String, of document: Document, _ bounds: Bounds
  ) async throws(RPCError) -> HTTPResponse {
    var request = HTTPRequest(
      purpose: document == .resource ? .resource : .discovery, method: "GET", url: url,
      headers: [.init("Accept", accept)])
    let pool = ConnectionPool(Self.pool, .logins, size: Limit.documentConnections, reach: bounds.reach)
    for _ in 0...Limit.redirects {
      try checkTime(bounds, url.absoluteString)
      let response: HTTPResponse
      do throws(TransportError) {
        response = try await transport.send(request, over: pool, late: nil)
      } catch {
        // A stream, or a page of any size: the status is not needed.
        if document == .resource, [.timedOut, .tooLarge, .unreadable].contains(error.kind) {
          return HTTPResponse(status: 200)
        }
        throw unavailable(error, url)
      }
      guard (300..<400).contains(response.status) else { return response }
      guard let next = request.redirected(by: response) else {
        if document == .resource { return response }
        throw RPCError(
          .providerError,
          "the document at \(request.url.absoluteString) is a redirect to another origin, which is not followed",
          hint: "Report it to the operator of \(url.host() ?? "the server"). Nothing was stored.")
      }
      request = next
    }
    throw RPCError(
      .providerError, "the document at \(url.absoluteString) is redirected more than \(Limit.redirects) times",
      hint: "Report it to the operator of \(url.host() ?? "the server"). Nothing was stored.")
  }

  /// Before each request for a resource, the registration included.
  func checkTime(_ bounds: Bounds, _ place: String) throws(RPCError) {
    guard uptime >= bounds.end else { return }
    throw RPCError(
      .timedOut, "the documents of the resource take longer than \(Limit.documents.words): \(place)",
      hint: "Try again later, or choose a server with --issuer.")
  }

  private static let pool = ProviderName(rawValue: "resources")!

  private func unavailable(_ error: TransportError, _ url: URL) -> RPCError {
    let message = "the document at \(url.absoluteString): \(error.message)"
    if error.cause == .reach {
      return RPCError(
        .providerError, message, hint: "If the server is yours, write a [provider.NAME] with `api_base` for it.")
    }
    switch error.kind {
    case .tooLarge:
      return RPCError(.providerError, message, hint: "Report it to the operator of \(url.host() ?? "the server").")
    case .notSent:
      return RPCError(
        .temporarilyUnavailable, message,
        hint: "Check the address and the network. The address of an issuer is for `grantctl setup`.", retryAfter: 30)
    case .lost, .timedOut, .unreadable:
      return RPCError(
        .temporarilyUnavailable, message, hint: "See the answer with `curl -v \(url.absoluteString)`.", retryAfter: 30)
    }
  }
}
