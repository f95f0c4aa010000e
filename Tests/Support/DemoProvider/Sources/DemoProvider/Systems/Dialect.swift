import Foundation

/// Whose manners an OAuth endpoint has, by its address; all serve the same clients, users and grants.
enum Dialect: Sendable {
  case standard
  case dropbox
  case uber

  init(path: String) {
    if path.hasPrefix("/oauth/v2/") {
      self = .uber
    } else {
      self = path.hasPrefix("/oauth2/") || path.hasPrefix("/2/") ? .dropbox : .standard
    }
  }

  /// The endpoint at an address that is not the standard's own.
  static func place(_ path: String) -> DemoServer.Fault.Place? {
    switch path {
    case "/oauth2/authorize": return .authorize
    case "/oauth2/token", "/oauth/v2/token": return .token
    case "/oauth/v2/par": return .par
    case Dropbox.revocation: return .revoke
    case "/me": return .resource
    case Provider.bridgeReturn: return .external
    default:
      if path.hasPrefix("/2/") { return .resource }
      return Uber.products.contains { path == "/oauth/v2/\($0)/authorize" } ? .authorize : nil
    }
  }

  /// What is granted where no scope is asked for.
  var defaultScopes: [String] {
    switch self {
    case .standard: []
    case .dropbox: Dropbox.scopes
    case .uber: ["profile"]
    }
  }

  /// The error for a client if the user refused.
  var refusal: String {
    self == .dropbox
      ? "The user chose not to give your app access to their Dropbox account." : "the user refused"
  }

  /// What is wrong with the parameters that are this dialect's own.
  func failure(of form: Form, raw: Form) -> OAuthFailure? {
    switch self {
    case .standard: return nil
    case .dropbox:
      let kind = form["token_access_type"]
      let isKnown = kind.map { ["offline", "online", "legacy"].contains($0) } ?? true
      return isKnown ? nil : .invalidRequest("token_access_type is offline, online or legacy")
    case .uber:
      guard !raw.pairs.contains(where: { $0.name == "prompt" && $0.value.isEmpty }) else {
        return .invalidRequest("prompt is empty")
      }
      let prompts = form.words("prompt") ?? []
      let isKnown = Set(prompts).isSubset(of: ["login", "consent"])
      return isKnown ? nil : .invalidRequest("prompt is login, consent or both")
    }
  }
}

extension Form {
  /// As HTML forms have it: `+` is a space.
  var plusEncoded: String { encoded.replacingOccurrences(of: "%20", with: "+") }
}
