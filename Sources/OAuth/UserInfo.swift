public import Foundation

/// What the UserInfo endpoint says of a person (OpenID Connect Core §5.3).
public struct UserInfo: Sendable, Equatable {
  public var subject: String
  public var name: String?
  public var preferredUsername: String?
  public var email: String?
  public var isEmailVerified: Bool
  /// The whole answer, a JSON object.
  public var claims: Data

  public static func httpRequest(to endpoint: URL, accessToken: Secret) -> HTTPRequest {
    // Exposed to be sent (RFC 6750 §2.1).
    let headers = [
      HTTPRequest.Header("Accept", "application/json"), .init("Authorization", "Bearer \(accessToken.exposed)"),
    ]
    return HTTPRequest(purpose: .userinfo, method: "GET", url: endpoint, headers: headers)
  }

  /// Reads the answer, which must be about the ID token's subject (OpenID Connect Core §5.3.4).
  ///
  /// - Parameter subject: the ID token's `sub`; nil where there was no ID token.
  public static func parse(_ response: HTTPResponse, subject: String?) throws(ResponseError) -> UserInfo {
    let members = try response.successfulObject()
    let found: String
    do throws(WrongMember) {
      found = try members.requiredText("sub")
    } catch {
      throw response.nonConforming(error)
    }
    if let subject, subject != found {
      throw .subjectMismatch(expected: subject.printable(limit: 255), found: found.printable(limit: 255))
    }
    // Optional claims of a wrong type are passed over: they decorate, and identify nobody.
    func optional(_ name: String) -> String? { try? members.text(name) }
    return UserInfo(
      subject: found, name: optional("name"), preferredUsername: optional("preferred_username"),
      email: optional("email"), isEmailVerified: members["email_verified"] == .bool(true), claims: response.body)
  }
}
