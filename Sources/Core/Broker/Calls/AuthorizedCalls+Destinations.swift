import BrokerAPI
import FoundationEssentials
import Grants
import OAuth

// The URL of a call to a provider's API.
extension AuthorizedCalls {
  /// The destination: only the provider's own servers, since the token is sent there, and a plain path. Empty steps are
  /// allowed.
  func address(_ text: String, _ provider: any Provider) throws(RPCError) -> URL {
    guard !provider.apiTraits.origins.isEmpty else {
      throw RPCError(
        .unsupportedByProvider, "provider \(provider.description.displayName) has no address for authorised calls",
        hint: "Set api_base or api_origins in \(provider.section), then run `grantctl reload`.")
    }
    let url: URL
    do throws(Objection) {
      url = try provider.apiTraits.resolve(text)
    } catch {
      throw .invalidParams(error)
    }
    guard PlainPath.isPlain(target: url.requestTarget) else {
      throw .invalidParams("params.url: \(PlainPath.refusal)", hint: PlainPath.hint)
    }
    return url
  }

  /// The destination of a request. It stays the same across reloads.
  func url(of forward: ForwardRequest) throws(RPCError) -> String {
    let provider = try provider(of: accountName(forward.account))
    guard let host = forward.host else { return try address(forward.target, provider).absoluteString }
    let traits = provider.apiTraits
    let wanted = host.lowercased()
    let origin = traits.origins.sorted(by: >).first { origin in
      let place = origin.drop { $0 != "/" }.drop { $0 == "/" }
      let standard = origin.hasPrefix("http:") ? ":80" : ":443"
      return place == wanted || place == wanted + standard
    }
    // Sorted so that https comes first.
    guard let origin else {
      throw RPCError(
        .unsupportedByProvider, "the account's token must not go to \(host.printable(limit: 128))",
        hint: "Allowed are: \(traits.origins.sorted().joined(separator: ", ")). An admin can add to api_origins.")
    }
    return origin + forward.target
  }

  /// A request in the form for rules. One without a destination has no host, and matches only patterns without one.
  func apiRequest(_ method: String, _ url: String, of account: String) -> APIRequest {
    let traits = AccountName(rawValue: account).flatMap { accounts[$0] }.flatMap {
      providers[$0.saved.provider]?.provider.apiTraits
    }
    guard let address = try? traits?.resolve(url) else {
      return APIRequest(method: method, host: "", path: String(url.prefix { $0 != "?" && $0 != "#" }))
    }
    return APIRequest(method: method, url: address)
  }
}

extension APIRequest {
  init(method: String, url: URL) {
    let origin = HTTPRequest(purpose: .resource, method: method, url: url).origin
    let (scheme, place) = (origin.prefix { $0 != ":" }, origin.drop { $0 != "/" }.drop { $0 == "/" })
    let standard = scheme == "http" ? ":80" : ":443"
    let path = url.path(percentEncoded: true)
    self.init(
      method: method, host: String(place.hasSuffix(standard) ? place.dropLast(standard.utf8.count) : place),
      path: path.isEmpty ? "/" : path)
  }
}
