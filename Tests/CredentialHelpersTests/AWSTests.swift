import Testing

@testable import CredentialHelpers

@Suite struct AWSTests {
  static let role = "arn:aws:iam::123456789012:role/team/Reader"
  private static let jwt = IssuedToken(text: "eyJh.b+/.c")

  private static func aws(_ arguments: [String], _ environment: [String: String] = [:]) throws -> AWS {
    try AWS(Invocation(arguments: arguments, environment: environment), input: [])
  }

  @Test(
    "the endpoint is that of the region, unless one is named",
    arguments: [
      ([], [:], "https://sts.amazonaws.com"), (["--region", "eu-west-1"], [:], "https://sts.eu-west-1.amazonaws.com"),
      ([], ["AWS_REGION": "us-east-2"], "https://sts.us-east-2.amazonaws.com"),
      ([], ["AWS_DEFAULT_REGION": "us-east-2"], "https://sts.us-east-2.amazonaws.com"),
      (["--endpoint=https://sts.test:8443"], ["AWS_REGION": "x"], "https://sts.test:8443"),
      ([], ["AWS_ENDPOINT_URL_STS": "https://sts.test:8443"], "https://sts.test:8443"),
      ([], ["AWS_REGION": ""], "https://sts.amazonaws.com"),
    ] as [([String], [String: String], String)])
  func endpoint(arguments: [String], environment: [String: String], url: String) throws {
    let aws = try Self.aws(["--role", Self.role] + arguments, environment)
    #expect(aws.request == token(url))
    #expect(try aws.exchange(Self.jwt).url == url)
  }

  @Test("STS gets the role, the session and the token") func exchange() throws {
    let sent = try Self.aws(["--role", Self.role, "--session", "a@b", "--duration=1800"]).exchange(Self.jwt)
    #expect(
      sent.body == "Action=AssumeRoleWithWebIdentity&Version=2011-06-15"
        + "&RoleArn=arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Fteam%2FReader&RoleSessionName=a%40b"
        + "&DurationSeconds=1800&WebIdentityToken=eyJh.b%2B%2F.c")
    #expect(throws: Malformed.self) { try Self.aws(["--role", Self.role]).exchange(.init(text: "opaque")) }
    #expect(try Self.aws([], ["AWS_ROLE_ARN": Self.role]).exchange(Self.jwt).form.contains { $0.value == Self.role })
  }

  @Test(
    "wrong options are refused",
    arguments: [
      [], ["--role"], ["--role", "x"], ["--role", "arn:aws:iam::1:user/x"], ["--role", role, "--duration", "900"],
      ["--role", role, "--duration", "x"], ["--role", role, "--session", "a b"], ["--role", role, "--new", "x"],
      ["--role", role, "--endpoint", "sts"], ["--role", role, "--session", "a"],
    ])
  func wrongOptions(arguments: [String]) {
    #expect(throws: Malformed.self) { try Self.aws(arguments) }
  }

  static let good = """
    <AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult>
    <Credentials><SessionToken>a&amp;b==</SessionToken><SecretAccessKey>s/e+c</SecretAccessKey>
    <Expiration>2026-01-01T01:00:00Z</Expiration><AccessKeyId>ASIA1</AccessKeyId></Credentials>
    </AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>
    """

  @Test("the answer has what STS gave") func theAnswer() throws {
    let aws = try Self.aws(["--role", Self.role])
    #expect(
      try aws.outcome(status: 200, body: Array(Self.good.utf8))
        == .answer(
          Reply(
            text: "{\"Version\":1,\"AccessKeyId\":\"ASIA1\",\"SecretAccessKey\":\"s/e+c\",\"SessionToken\":\"a&b==\","
              + "\"Expiration\":\"2026-01-01T01:00:00Z\"}\n")))
  }

  @Test(
    "other answers are refused",
    arguments: [
      "", "<html>", good.replacing("AccessKeyId", with: "X"), good.replacing("&amp;", with: "&x;"),
      good.replacing("ASIA1", with: "<b>"), good.replacing("ASIA1", with: ""),
      good.replacing("</Credentials>", with: ""),
    ])
  func otherAnswers(body: String) throws {
    let aws = try Self.aws(["--role", Self.role])
    #expect(throws: Problem.self) { try aws.outcome(status: 200, body: Array(body.utf8)) }
  }

  @Test("a refusal has AWS's words, and a token that has ended is told from others") func refusals() throws {
    let aws = try Self.aws(["--role", Self.role])
    func error(_ code: String) -> [UInt8] {
      Array("<ErrorResponse><Error><Code>\(code)</Code><Message>No &lt;way&gt;</Message></Error></ErrorResponse>".utf8)
    }
    let words = "AWS refuses role \(Self.role) (HTTP 400): ExpiredTokenException: No <way>"
    #expect(try aws.outcome(status: 400, body: error("ExpiredTokenException")) == .rejected(Problem(words)))
    #expect(throws: Problem("AWS refuses role \(Self.role) (HTTP 403): AccessDenied: No <way>")) {
      try aws.outcome(status: 403, body: error("AccessDenied"))
    }
    #expect(throws: Problem("AWS refuses role \(Self.role) (HTTP 500): it gives no reason")) {
      try aws.outcome(status: 500, body: [])
    }
  }
}
