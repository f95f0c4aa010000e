import Grants
import OAuth
import Testing

@testable import Providers

@Suite("The results of a poll for a login on another device")
struct DevicePollTests {
  private func poll(_ script: inout Script) -> Result<DeviceAnswer, ProviderFailure> {
    let device = DeviceLogin(
      deviceCode: Secret("the device code"), userCode: "WDJB-MJHT", verificationURI: issuerText + "/device",
      verificationURIComplete: nil, interval: .seconds(5))
    return script.run(provider().poll(device, login: login(), metadata: metadata))
  }

  private func failure<Value>(_ result: Result<Value, ProviderFailure>) -> String? {
    switch result {
    case .success: nil
    case .failure(let failure): failure.message
    }
  }

  @Test("43. a device authorization request bears no nonce: the ID token has none, or is refused")
  func nonce() throws {
    var without = Script(answer(tokenBody(idToken: key.idToken(["nonce": nil]))))
    guard case .issued(let issued) = try poll(&without).get() else {
      Issue.record("nothing was issued")
      return
    }
    #expect(issued.identity?.subject == "alice")
    #expect(without.sent[0].purpose == .token)
    // Not even the one of the same login in a browser.
    for nonce in ["\"the nonce\"", "\"another\""] {
      var with = Script(answer(tokenBody(idToken: key.idToken(["nonce": nonce]))))
      #expect(failure(poll(&with))?.contains("nonce") == true)
    }
  }

  @Test("an ID token is checked as always, and a missing one is not a failure: the user is unknown then")
  func idToken() throws {
    var wrong = Script(answer(tokenBody(idToken: key.idToken(["nonce": nil, "aud": "\"another\""]))))
    #expect(failure(poll(&wrong)) != nil)
    var none = Script(answer(tokenBody()))
    guard case .issued(let issued) = try poll(&none).get() else {
      Issue.record("nothing was issued")
      return
    }
    #expect(issued.identity == nil && issued.idToken == nil)
  }
}
