public import FoundationEssentials

/// Asks for a code that a person types in on another device (RFC 8628 §3.1).
public struct DeviceAuthorizationRequest: Sendable {
  public var scopes: [String]
  /// RFC 8707 §2.
  public var resources: [String]
  /// What the provider wants besides. A parameter that the request has by itself is not replaced.
  public var extraParameters: [Parameter]
  /// A header that the request has by itself is not replaced.
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

  /// The request. `client_id` is in it even where a header names the client: RFC 8628 §3.1 demands it of clients that do
  /// not authenticate, and some servers of all.
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

/// What a person is shown, and what is asked for with it (RFC 8628 §3.2).
public struct DeviceAuthorizationResponse: Sendable, Equatable {
  public var deviceCode: Secret
  /// What the person types in. Fit for a terminal.
  public var userCode: String
  /// Where the person goes: http or https.
  public var verificationURI: String
  /// The same with the code in it, for a link or a QR code.
  public var verificationURIComplete: String?
  public var expiresIn: Duration
  /// How long to wait between two polls.
  public var interval: Duration

  /// The interval where the server gives none (RFC 8628 §3.2).
  public static let standardInterval = Duration.seconds(5)
  /// What an interval may be: a server that says 0 is not hammered, one that says a day is not believed.
  public static let intervals = Duration.seconds(1)...Duration.seconds(300)

  /// Longest texts, in bytes.
  static let longestUserCode = 64
  static let longestURI = 2048
  static let longestDeviceCode = 16 << 10

  /// Reads the answer: 200, and all members that RFC 8628 §3.2 demands. `verification_url` is taken for
  /// `verification_uri`, as older servers say.
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
    // Only a convenience: one that cannot be used is as good as none.
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

  /// A URI that a terminal may show and a browser open.
  private static func uri(_ text: String) -> String? {
    guard text.utf8.count <= longestURI, text.utf8.allSatisfy({ (0x21...0x7e).contains($0) }), let uri = URI(text),
      ["http", "https"].contains(uri.scheme.lowercased()), uri.user == nil, !(uri.host ?? "").isEmpty
    else { return nil }
    return text
  }
}

extension DeviceAuthorizationResponse: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  public var description: String { "device authorization response" }
  public var debugDescription: String { description }
  /// The user code and the complete URI let whoever reads them take part in the login.
  public var customMirror: Mirror { Mirror(self, children: [:]) }
}
