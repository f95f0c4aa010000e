import Foundation
import Grants
import OAuth
import Testing

@testable import GrantdConfiguration
@testable import Providers

/// The rows of UberAuthError's table, by the shipped template.
@Suite("UberAuthError, row by row")
struct UberErrorRowTests {
  private func rig() throws -> SignInRig { try UberRowTests().rig() }

  @Test("UberAuthError.existingAuthSession: one login at a time")
  func existing() throws {
    #expect(try rig().provider.authorizationTraits.correlation == .singleLogin)
  }

  @Test(
    "UberAuthError.invalidAuthCode and invalidResponse: no code, or an address that cannot be read, leaves the login waiting",
    arguments: [
      ("?state=the-state", CallbackError.neitherCodeNorError), ("?code=&state=the-state", .neitherCodeNorError),
      ("?code=%&state=the-state", .unreadable), ("?code=a&code=b&state=the-state", .duplicateParameter("code")),
    ])
  func invalidCode(query: String, error: CallbackError) throws {
    let rig = try rig()
    #expect(error.leavesLoginPending)
    guard case .failure(error) = try rig.answer("myapp://oauth/consumer\(query)", try rig.login()) else {
      Issue.record("it was taken")
      return
    }
  }

  @Test(
    "UberAuthError.invalidRequest: a bad base or redirect URI is an error of the configuration",
    arguments: [
      ("redirect_uri = \"not a uri\"", "\"redirect_uri\" in [provider.x]: "),
      ("redirect_uri = \"https:/path\"", "\"redirect_uri\" in [provider.x]: "),
      ("authorization_endpoint = \"auth.uber.com\"", "\"authorization_endpoint\" in [provider.x] must be an https URL"),
      ("token_endpoint = \"http://auth.uber.com/t\"", "\"token_endpoint\" in [provider.x] must be an https URL"),
      (
        "native_apps = [{ app = \"rides\", url = \"http://auth.uber.com/a\" }]",
        "\"native_apps\" in [provider.x]: the application \"rides\" cannot be opened by \"http://auth.uber.com/a\": "
      ),
    ])
  func invalidRequest(key: String, complaint: String) throws {
    let found = try Fixture().complaint("[provider.x]\nprofile = \"uber\"\nclient_id = \"ID\"\n\(key)")
    #expect(found.hasPrefix("grantd.toml:4: \(complaint)"), "\(found)")
  }

  @Test(
    "UberAuthError.oAuth: each code of RFC 6749 §4.1.2.1 comes with its description and its page",
    arguments: [
      "invalid_request", "unauthorized_client", "access_denied", "unsupported_response_type", "invalid_scope",
      "server_error", "temporarily_unavailable",
    ])
  func oauth(code: String) throws {
    let rig = try rig()
    let address =
      "myapp://oauth/consumer?error=\(code)&error_description=why&error_uri=https://u.example&state=the-state"
    guard case .failure(.denied(let error)) = try rig.answer(address, try rig.login()) else {
      Issue.record("it was taken")
      return
    }
    #expect(
      error == OAuthError(code: OAuthErrorCode(rawValue: code), description: "why", uri: "https://u.example"))
  }

  @Test(
    "UberAuthError.oAuth: each code of RFC 6749 §5.2 fails the exchange with its description",
    arguments: [
      "invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type",
      "invalid_scope",
    ])
  func tokenOAuth(code: String) throws {
    let rig = try rig()
    let body = #"{"error":"\#(code)","error_description":"why"}"#
    guard case .failure(let failure) = try rig.exchange(UberRowTests.address, try rig.login(), body, status: 400).end
    else {
      Issue.record("it was taken for tokens")
      return
    }
    #expect(failure.oauth == OAuthError(code: OAuthErrorCode(rawValue: code), description: "why"))
  }

  @Test(
    "UberAuthError.serviceError and other: a success that cannot be read is told from the network",
    arguments: ["", "<html>", "{}", #"{"access_token":7}"#])
  func serviceError(body: String) throws {
    let rig = try rig()
    guard case .failure(.unclear) = try rig.exchange(UberRowTests.address, try rig.login(), body).end else {
      Issue.record("it was taken for tokens")
      return
    }
  }
}
