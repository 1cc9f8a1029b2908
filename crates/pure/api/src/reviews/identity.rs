//! Who somebody is.

use k8s_openapi::api::authentication::v1::{
    SelfSubjectReview, SelfSubjectReviewStatus, TokenReview, TokenReviewStatus, UserInfo,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_kinds::validation::items;

use super::ReviewCall;
use crate::outcome::ApiAnswer;
use crate::status::ApiError;
use crate::tokens::TokenRefusal;

/// `selfsubjectreviews`.
pub(super) fn who_am_i(call: &ReviewCall<'_>) -> Result<ApiAnswer, ApiError> {
    call.answer(|review: &mut SelfSubjectReview| {
        let user_info = call.request.identity.shown();
        // answered without what was sent, as upstream
        review.metadata = ObjectMeta {
            creation_timestamp: Some(call.request.now.to_time()),
            ..ObjectMeta::default()
        };
        review.status = Some(SelfSubjectReviewStatus { user_info: Some(user_info) });
        Ok(())
    })
}

/// `tokenreviews`.
pub(super) fn whose_token(call: &ReviewCall<'_>) -> Result<ApiAnswer, ApiError> {
    call.answer(|review: &mut TokenReview| {
        review.status = Some(token_status(call, review)?);
        Ok(())
    })
}

fn token_status(
    call: &ReviewCall<'_>,
    review: &TokenReview,
) -> Result<TokenReviewStatus, ApiError> {
    let token = review.spec.token.as_str();
    if token.is_empty() {
        return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
    }
    let audiences = items(review.spec.audiences.as_ref());
    let api = call.api;
    Ok(match api.tokens.review(api.state(), token, audiences, call.request.now) {
        Ok(known) => TokenReviewStatus {
            authenticated: Some(true),
            user: Some(known.user.shown()),
            audiences: Some(known.audiences),
            error: None,
        },
        Err(refusal) => TokenReviewStatus {
            error: Some(shown_refusal(&refusal)),
            user: Some(UserInfo::default()),
            ..TokenReviewStatus::default()
        },
    })
}

/// Of a token that is none of ours no more is said, as upstream.
fn shown_refusal(refusal: &TokenRefusal) -> String {
    match refusal {
        TokenRefusal::Token(_) | TokenRefusal::NoKey | TokenRefusal::Issuer => {
            "invalid bearer token".to_owned()
        }
        TokenRefusal::Time | TokenRefusal::Audience(..) | TokenRefusal::Gone(..) => {
            refusal.to_string()
        }
    }
}
