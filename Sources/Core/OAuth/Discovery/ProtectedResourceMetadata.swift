/// The metadata of a protected resource (RFC 9728 §2).
public struct ProtectedResourceMetadata: Sendable, Equatable {
  /// The resource for authorization and token requests (RFC 8707), as the document has it.
  public var resource: String
  public var authorizationServers: [Issuer]
  public var scopesSupported: [String]

  /// The maximum number of authorization servers.
  public static let mostServers = 16

  /// Parses the response to a metadata request.
  ///
  /// - Parameter url: the URL that the user named; the document must be about it (RFC 9728 §3.3).
  public static func parse(
    _ response: HTTPResponse, of url: ResourceURL
  ) throws(ProtectedResourceError) -> ProtectedResourceMetadata {
    guard response.status == 200 else { throw .status(response.status) }
    guard let members = JSON(message: response.body)?.dictionary else {
      throw .notJSON(response.mediaType.printable(limit: 100))
    }
    let resource: String
    let servers: [String]
    let scopes: [String]
    do throws(WrongMember) {
      resource = try members.requiredText("resource")
      servers = try members.texts("authorization_servers") ?? []
      scopes = try members.texts("scopes_supported") ?? []
    } catch {
      throw .member(error.name, wanted: error.wanted)
    }
    guard url.belongs(to: resource) else { throw .otherResource(resource.printable(limit: 512)) }
    guard !servers.isEmpty else { throw .noServers }
    guard servers.count <= Self.mostServers else { throw .tooManyServers(servers.count) }
    var issuers: [Issuer] = []
    var wrong: IssuerError?
    for text in servers {
      do throws(IssuerError) {
        issuers.append(try Issuer(text, allowInsecureHTTP: false))
      } catch {
        wrong = wrong ?? error
      }
    }
    if issuers.isEmpty, let wrong { throw .wrongServer(wrong) }
    return .init(
      resource: resource, authorizationServers: issuers, scopesSupported: scopes.filter(ResourceChallenge.isScope))
  }
}

/// Why the metadata of a protected resource cannot be used. The text completes “the document at URL …”.
public enum ProtectedResourceError: Error, Sendable, Equatable, CustomStringConvertible {
  case status(Int)
  case notJSON(String)
  case member(String, wanted: String)
  case otherResource(String)
  case noServers
  case tooManyServers(Int)
  case wrongServer(IssuerError)

  public var description: String {
    switch self {
    case .status(let status): "is missing (HTTP \(status))"
    case .notJSON(let type): "is not a JSON object (\(type.isEmpty ? "no content type" : type))"
    case .member(let name, let wanted): "is wrong: \(name) is not \(wanted)"
    case .otherResource(let resource): "is about another resource, “\(resource)” (RFC 9728 §3.3)"
    case .noServers: "names no authorization server"
    case .tooManyServers(let count):
      "names \(count) authorization servers, more than \(ProtectedResourceMetadata.mostServers)"
    case .wrongServer(let error):
      switch error {
      case .notAURL(let text): "names the authorization server “\(text)”, which is not a URL"
      case .notHTTPS(let text): "names the authorization server “\(text)”, which is not https"
      case .queryOrFragment(let text): "names the authorization server “\(text)”, which has a query or a fragment"
      }
    }
  }
}
