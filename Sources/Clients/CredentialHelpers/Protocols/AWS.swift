import BrokerAPI

/// `credential_process` of the AWS SDKs. STS gives the credentials for the token (AssumeRoleWithWebIdentity, unsigned).
public struct AWS: Exchanging {
  public static let name = "aws"
  public static let takesIDTokens = true
  public static let findsIssuers = false
  public static let isWhollyConfigured = true

  /// STS takes 900 to 43,200; less than 16 minutes would have the SDK ask at each call.
  private static let durations = 960...43_200
  private static let standardDuration = 3600
  /// Bytes of the name that is shown in AWS's logs.
  private static let longestSession = 64

  public let request: Request
  private let endpoint: String
  private let role: String
  private let session: String
  private let duration: Int

  public static func input(_ invocation: Invocation) -> InputShape { .none }

  public init(_ invocation: Invocation, input: [UInt8]) throws(Malformed) {
    let options = try Self.options(invocation.arguments)
    let environment = invocation.environment
    func variable(_ name: String) -> String? { environment[name].flatMap { $0.isEmpty ? nil : $0 } }
    guard let role = options["--role"] ?? variable("AWS_ROLE_ARN") else {
      throw Malformed("the role is missing: write --role ARN behind `helper aws`")
    }
    let parts = role.split(separator: ":", omittingEmptySubsequences: false)
    guard parts.count == 6, parts[0] == "arn", parts[2] == "iam", parts[5].hasPrefix("role/") else {
      throw Malformed("the role is no ARN such as arn:aws:iam::123456789012:role/NAME")
    }
    self.role = role
    session = options["--session"] ?? variable("AWS_ROLE_SESSION_NAME") ?? "grantd"
    let isName = session.utf8.allSatisfy {
      (0x30...0x39).contains($0) || (0x41...0x5A).contains($0) || (0x61...0x7A).contains($0)
        || "_+=,.@-".utf8.contains($0)
    }
    guard isName, (2...Self.longestSession).contains(session.utf8.count) else {
      throw Malformed("--session has 2 to 64 letters, digits and _+=,.@-")
    }
    let duration = options["--duration"].map { Int($0) ?? 0 } ?? Self.standardDuration
    guard Self.durations.contains(duration) else { throw Malformed("--duration is 960 to 43200 seconds") }
    self.duration = duration
    let region = options["--region"] ?? variable("AWS_REGION") ?? variable("AWS_DEFAULT_REGION")
    let domain = parts[1] == "aws-cn" ? "amazonaws.com.cn" : "amazonaws.com"
    endpoint =
      options["--endpoint"] ?? variable("AWS_ENDPOINT_URL_STS")
      ?? "https://sts.\(region.map { $0 + "." } ?? "")\(domain)"
    guard let place = ServerLocation(endpoint), place.scheme != nil else {
      throw Malformed("the STS endpoint is not a URL")
    }
    request = .token(HelperTokenRequest(place: place, account: invocation.account))
  }

  private static let names = ["--role", "--session", "--duration", "--region", "--endpoint"]

  private static func options(_ arguments: [String]) throws(Malformed) -> [String: String] {
    var options: [String: String] = [:]
    var rest = arguments[...]
    while let word = rest.popFirst() {
      let equals = word.firstIndex(of: "=")
      let name = equals.map { String(word[..<$0]) } ?? word
      guard names.contains(name), let value = equals.map({ String(word[word.index(after: $0)...]) }) ?? rest.popFirst()
      else { throw Malformed("\(word) is not an option of the helper aws, or has no value") }
      options[name] = value
    }
    return options
  }

  public func exchange(_ token: IssuedToken) throws(Malformed) -> WebRequest {
    guard JWTText.isJWT(token.text) else { throw Malformed(JWTText.wanted("AWS")) }
    return WebRequest(
      url: endpoint,
      form: [
        ("Action", "AssumeRoleWithWebIdentity"), ("Version", "2011-06-15"), ("RoleArn", role),
        ("RoleSessionName", session), ("DurationSeconds", "\(duration)"), ("WebIdentityToken", token.text),
      ])
  }

  public func outcome(status: Int, body: [UInt8]) throws(Problem) -> ExchangeOutcome {
    guard let text = String(validating: body, as: UTF8.self) else { throw Problem("the STS answer is not UTF-8") }
    guard status == 200 else {
      let code = XMLText.content(of: "Code", in: text[...])
      let message = XMLText.content(of: "Message", in: text[...])
      let words = [code, message].compactMap { $0 }.joined(separator: ": ")
      let problem = Problem(
        "AWS refuses role \(role) (HTTP \(status)): \(words.isEmpty ? "it gives no reason" : words)")
      if code == "ExpiredTokenException" { return .rejected(problem) }
      throw problem
    }
    guard let credentials = XMLText.element("Credentials", in: text[...]),
      let key = XMLText.content(of: "AccessKeyId", in: credentials),
      let secret = XMLText.content(of: "SecretAccessKey", in: credentials),
      let session = XMLText.content(of: "SessionToken", in: credentials),
      let end = XMLText.content(of: "Expiration", in: credentials)
    else { throw Problem("the STS answer has no credentials: is \(endpoint) the STS endpoint?") }
    let answer: JSON = [
      "Version": 1, "AccessKeyId": .string(key), "SecretAccessKey": .string(secret), "SessionToken": .string(session),
      // In UTC: some SDKs refuse an offset.
      "Expiration": .string(InternetTime.seconds(end).map(InternetTime.text) ?? end),
    ]
    return .answer(Reply(out: answer.serialized() + [0x0A]))
  }

  public static func notFound(_ invocation: Invocation) -> Reply {
    Reply(
      err: "no account is mapped to this STS endpoint: write --account NAME behind `helper aws`, or an entry of "
        + "helper.toml", status: 1)
  }
}

/// As much of XML as the answers of STS have: elements without attributes, text with the five entities.
enum XMLText {
  static func element(_ name: String, in text: Substring) -> Substring? {
    guard let start = text.firstRange(of: "<\(name)>"),
      let end = text[start.upperBound...].firstRange(of: "</\(name)>")
    else { return nil }
    return text[start.upperBound..<end.lowerBound]
  }

  /// Nil if there is none, or if it is not text.
  static func content(of name: String, in text: Substring) -> String? {
    guard let raw = element(name, in: text), !raw.contains("<") else { return nil }
    var result = ""
    var rest = raw[...]
    while let next = rest.popFirst() {
      guard next == "&" else {
        result.append(next)
        continue
      }
      guard let semicolon = rest.firstIndex(of: ";"), let known = entities[String(rest[..<semicolon])] else {
        return nil
      }
      result += known
      rest = rest[rest.index(after: semicolon)...]
    }
    return result.drop(while: \.isWhitespace).isEmpty ? nil : result
  }

  private static let entities = ["lt": "<", "gt": ">", "amp": "&", "quot": "\"", "apos": "'"]
}
