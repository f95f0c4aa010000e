import FoundationEssentials
import Grants
import OAuth

/// A login on another device as its column has it, which is sealed whole.
struct DeviceRecord: Codable {
  var deviceCode: String
  var userCode: String
  var verificationURI: String
  var verificationURIComplete: String?
  var interval: Int64

  init(_ device: DeviceLogin) {
    // Exposed to be sealed.
    deviceCode = device.deviceCode.exposed
    userCode = device.userCode
    verificationURI = device.verificationURI
    verificationURIComplete = device.verificationURIComplete
    interval = device.interval.milliseconds
  }

  var login: DeviceLogin {
    DeviceLogin(
      deviceCode: Secret(deviceCode), userCode: userCode, verificationURI: verificationURI,
      verificationURIComplete: verificationURIComplete, interval: .milliseconds(interval))
  }
}
