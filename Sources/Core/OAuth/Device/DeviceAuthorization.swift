public import FoundationEssentials

/// Requests a code that the user enters on another device (RFC 8628 §3.1).
public struct DeviceAuthorizationRequest: Sendable {
  public var scopes: [String]
  /// RFC 8707 §2.
  public var resources: [String]
  /// Provider-specific parameters. They never replace the request's own.
  public var extraParameters: [Parameter]
  /// Additional headers. They never replace the request's own.
  public var extraHeaders: [HTTPRequest.Header]

  public init(
    scopes: [String], resources: [String] = [], extraParameters: [Parameter] = [],
    extraHeaders: [HTTPRequest.Header] = []
  ) {
    self.scopes = scopes
    self.resources = resources
    self.extraParameters = extraParameters
    self.extraHeaders = extraHeaders
  }

  /// The request. It contains `client_id` even if a header identifies the client: RFC 8628 §3.1 requires it of clients
  /// that do not authenticate, and some servers require it of all.
  public func httpRequest(
    to endpoint: URL, clientID: String, client: ClientAuthentication, format: BodyFormat = .form,
    scopeSeparator: String = " "
  ) -> HTTPRequest {
    var parameters = client.isInHeader ? [Parameter("client_id", clientID)] : []
    if !scopes.isEmpty { parameters.append(Parameter("scope", scopes.joined(separator: scopeSeparator))) }
    parameters += resources.map { Parameter("resource", $0) }
    let taken = Set(parameters.map(\.name)).union(["client_id", "client_secret"])
    parameters += extraParameters.filter { !taken.contains($0.name) }
    return .post(
      parameters, purpose: .device, to: endpoint, clientID: clientID, client: client, format: format,
      extraHeaders: extraHeaders)
  }
}

/// The codes and URLs of a device login (RFC 8628 §3.2).
public struct DeviceAuthorizationResponse: Sendable, Equatable {
  public var deviceCode: Secret
  /// The code that the user enters. Safe for a terminal.
  public var userCode: String
  /// The page for the user: http or https.
  public var verificationURI: String
  /// The same with the code included, for a link or a QR code.
  public var verificationURIComplete: String?
  public var expiresIn: Duration
  /// The minimum time between two polls.
  public var interval: Duration

  /// The interval if the server specifies none (RFC 8628 §3.2).
  public static let standardInterval = Duration.seconds(5)
  /// The limits of an interval, for servers that return 0 or an excessive value.
  public static let intervals = Duration.seconds(1)...Duration.seconds(300)

  /// Maximum lengths, in bytes.
  static let longestUserCode = 64
  static let longestURI = 2048
  static let longestDeviceCode = 16 << 10

  /// Parses the response: 200, and all members that RFC 8628 §3.2 requires. `verification_url` is accepted instead of
  /// `verification_uri`, as older servers write it.
  public static func parse(_ response: HTTPResponse) throws(ResponseError) -> DeviceAuthorizationResponse {
    let members = try response.successfulObject()
    if let error = OAuthError(members: members) {
      throw .oauth(error, status: response.status, retryAfter: response.retryAfter)
    }
    do throws(WrongMember) {
      return try DeviceAuthorizationResponse(members)
    } catch {
      throw response.nonConforming(error)
    }
  }

  private init(_ members: [String: JSON]) throws(WrongMember) {
    let code = try members.requiredText("device_code")
    guard code.utf8.count <= Self.longestDeviceCode else {
      throw WrongMember(name: "device_code", wanted: "a text of at most \(Self.longestDeviceCode) bytes")
    }
    deviceCode = Secret(code)
    userCode = try members.requiredText("user_code")
    guard userCode.utf8.count <= Self.longestUserCode, userCode.printable(limit: Self.longestUserCode) == userCode
    else {
      throw WrongMember(name: "user_code", wanted: "a text of at most \(Self.longestUserCode) printable characters")
    }
    let name = members["verification_uri"] == nil ? "verification_url" : "verification_uri"
    guard let uri = Self.uri(try members.requiredText(name)) else {
      throw WrongMember(name: name, wanted: "an http or https URL of at most \(Self.longestURI) bytes")
    }
    verificationURI = uri
    // Only a convenience: an unusable one is ignored.
    let complete = members["verification_uri_complete"] ?? members["verification_url_complete"]
    if case .string(let text)? = complete { verificationURIComplete = Self.uri(text) }
    guard let lifetime = try members.number("expires_in", orText: true), lifetime > 0 else {
      throw WrongMember(name: "expires_in", wanted: "a positive number")
    }
    expiresIn = Lifetime.duration(lifetime, unit: .seconds)
    let interval = try members.number("interval", orText: true)
    self.interval = interval.map { Lifetime.duration($0, unit: .seconds) } ?? Self.standardInterval
    self.interval = min(max(self.interval, Self.intervals.lowerBound), Self.intervals.upperBound)
  }

  /// A URI that is safe to show in a terminal and open in a browser.
  private static func uri(_ text: String) -> String? {
    guard text.utf8.count <= longestURI, text.utf8.allSatisfy({ (0x21...0x7e).contains($0) }), let uri = URI(text),
      ["http", "https"].contains(uri.scheme.lowercased()), uri.user == nil, !(uri.host ?? "").isEmpty
    else { return nil }
    return text
  }
}

extension DeviceAuthorizationResponse: Redacted {
  /// The user code and the complete URI let any reader take part in the login.
  public var description: String { "device authorization response" }
}
